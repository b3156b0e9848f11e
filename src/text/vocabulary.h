// The table of tokens: id to string, string to id, the bytes of each, and which are added or special.
//
// Knows nothing of how a text becomes ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_file.h"

namespace fathom {

/// Ids run from 0 to size() - 1 without gaps, and no two have the same string.
class Vocabulary {
 public:
  /// Base entries and added ones together. An added entry may name a base entry that has the same id and
  /// string (it then marks it as added). Errors: format (an id twice, a gap, a string with two ids, more
  /// than one added entry of an id) and unsupported (an added text that the byte map would turn into
  /// another one).
  static Result<Vocabulary> build(const TokenizerFile& file);

  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  bool contains(int32_t id) const { return id >= 0 && id < size(); }
  std::optional<int32_t> id_of(std::string_view token) const;

  // For ids in range only.
  const std::string& token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  const std::string& bytes(int32_t id) const { return bytes_[static_cast<size_t>(id)]; }
  bool is_added(int32_t id) const { return role_[static_cast<size_t>(id)] != Role::base; }
  bool is_special(int32_t id) const { return role_[static_cast<size_t>(id)] == Role::special; }

 private:
  enum class Role : uint8_t { base, added, special };

  Vocabulary() = default;
  Status place(const TokenizerFile& file);

  std::vector<std::string> tokens_;
  std::vector<std::string> bytes_;
  std::vector<Role> role_;
  std::unordered_map<std::string_view, int32_t> ids_;  // views of tokens_, whose strings never move
};

}  // namespace fathom
