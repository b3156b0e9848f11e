// Ends a text at the first of several stop strings, which may begin in one token and end in another.
//
// Works on bytes of text, after detokenization; knows nothing of tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace fathom {

/// Aho-Corasick automaton over bytes: time and memory linear in the stop strings' and the text's length.
/// The first byte that completes a stop string decides; the text ends where the longest stop string completed
/// by that byte begins. The result does not depend on how the text was cut into pushes. When stop strings and
/// pushes are whole UTF-8, so is every piece of shown text.
class StopMatcher {
 public:
  /// `stops` may be empty; then all text passes. Errors: invalid_argument for an empty stop string.
  static Result<StopMatcher> make(std::span<const std::string> stops);

  /// Takes the next piece of text and gives the text that may now be shown: all so far but a possible
  /// beginning of a stop string. After a match there is no more text: pushes give "".
  std::string push(std::string_view text);

  /// No more text comes: gives what was held back.
  std::string finish();

  bool stopped() const { return matched_.has_value(); }
  /// Index of the stop string that matched (the first among equal strings).
  std::optional<size_t> matched() const { return matched_; }

 private:
  static constexpr int32_t none = -1;
  // A node stands for a beginning of a stop string: the first `depth` bytes of stops_[owner].
  struct Node {
    int32_t owner = 0;
    int32_t depth = 0;
    int32_t fail = 0;      // node of the longest proper suffix that begins a stop string
    int32_t stop = none;   // index of the stop string that ends here
    int32_t match = none;  // nearest node on the fail chain, itself included, where a stop string ends
  };

  explicit StopMatcher(std::span<const std::string> stops) : stops_(stops.begin(), stops.end()), nodes_(1) {}
  const Node& node(int32_t index) const { return nodes_[static_cast<size_t>(index)]; }
  int32_t child(int32_t from, uint8_t byte) const;
  int32_t step(int32_t from, uint8_t byte) const;
  std::string_view text_of(const Node& node) const;
  void add(size_t stop_index);
  void link();

  std::vector<std::string> stops_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, int32_t> children_;  // node * 256 + byte -> node
  int32_t state_ = 0;                               // its text is what is held back
  std::optional<size_t> matched_;
};

}  // namespace fathom
