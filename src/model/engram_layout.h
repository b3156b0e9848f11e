// Everything about n-gram lookups that follows from the configuration: bucket primes, where buckets start,
// multipliers, and the hash from compressed ids to table rows (spec 3). Knows no tokenizer and no tables.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/config.h"

namespace fathom {

struct EngramLayout {
  int64_t num_layers = 0;      // engram layers, in the order of engram_layer_ids
  int64_t max_ngram_size = 0;  // n-grams of 2..max_ngram_size tokens
  int64_t num_heads = 0;
  int64_t compressed_vocab_size = 0;
  std::vector<int64_t> primes;         // [layer][size][head]: rows of each bucket
  std::vector<int64_t> bucket_starts;  // [layer][size][head]: a bucket's first row within its layer's table
  std::vector<int64_t> multipliers;    // [layer][max_ngram_size], odd; they may pass 2^53: never through a double

  int64_t num_sizes() const { return max_ngram_size - 1; }
  /// Rows asked for at one position by one layer.
  int64_t columns() const { return num_sizes() * num_heads; }
  /// Rows of a layer's table: the sum of its primes.
  int64_t table_rows(int64_t layer_idx) const;
};

/// The layout of `config`'s engram layers (empty when there are none). The search for primes is bounded.
/// Errors: invalid_argument (sizes outside what parse_config accepts, too many buckets).
Result<EngramLayout> make_engram_layout(const ModelConfig& config);

/// The compressed id of a position that n-grams must not see (an image position).
constexpr int32_t engram_dead = -1;

/// Table rows for the positions ids[first..], looked up by engram layer `layer_idx` (an index, not a layer).
/// `ids` are compressed ids in sequence order; those before `first` are history, and the history must begin
/// with the sequence or hold at least max_ngram_size - 1 ids. An id outside the compressed vocabulary, which
/// includes engram_dead, is dead: it reads as `pad` (the pad token's compressed id) and looking back stops at
/// it. `rows` receives [ids.size() - first][columns()] row numbers, sizes outermost within a position.
void engram_rows(const EngramLayout& layout, int64_t layer_idx, std::span<const int32_t> ids, size_t first,
                 int32_t pad, std::span<int64_t> rows);

}  // namespace fathom
