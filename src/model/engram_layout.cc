#include "model/engram_layout.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/check.h"
#include "model/numpy_random.h"

namespace fathom {
namespace {

constexpr int64_t max_buckets = 4096;  // the released model has 48; bounds the search for primes

__extension__ typedef unsigned __int128 Wide;

uint64_t multiply_mod(uint64_t a, uint64_t b, uint64_t m) { return static_cast<uint64_t>(Wide{a} * b % m); }

uint64_t power_mod(uint64_t base, uint64_t exponent, uint64_t m) {
  uint64_t result = 1;
  for (base %= m; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = multiply_mod(result, base, m);
    base = multiply_mod(base, base, m);
  }
  return result;
}

// Miller-Rabin with the first twelve primes as bases, which decides every 64-bit number.
bool is_prime(uint64_t n) {
  constexpr std::array<uint64_t, 12> bases{2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  if (n < 2) return false;
  for (const uint64_t p : bases)
    if (n % p == 0) return n == p;
  uint64_t odd = n - 1;
  int twos = 0;
  for (; odd % 2 == 0; odd /= 2) ++twos;
  for (const uint64_t base : bases) {
    uint64_t x = power_mod(base, odd, n);
    bool passes = x == 1 || x == n - 1;
    for (int i = 1; i < twos && !passes; ++i) {
      x = multiply_mod(x, x, n);
      passes = x == n - 1;
    }
    if (!passes) return false;
  }
  return true;
}

Status check_sizes(const ModelConfig& c) {
  const auto in = [](int64_t value, int64_t min, int64_t max) { return value >= min && value <= max; };
  if (!in(c.engram_max_ngram_size, 2, 8) || !in(c.engram_n_heads, 1, 64) ||
      !in(c.engram_vocab_size, 1, int64_t{1} << 40) || !in(c.engram_compressed_vocab_size, 1, 1 << 24))
    return fail(
        ErrorCode::invalid_argument,
        "engram sizes out of range: max_ngram_size {}, n_heads {}, vocab_size {}, compressed_vocab_size {}",
        c.engram_max_ngram_size, c.engram_n_heads, c.engram_vocab_size, c.engram_compressed_vocab_size);
  const int64_t per_layer = c.engram_columns();
  if (std::cmp_greater(c.engram_layer_ids.size(), max_buckets / per_layer))
    return fail(ErrorCode::invalid_argument,
                "{} engram layers of {} buckets, expected at most {} buckets in all",
                c.engram_layer_ids.size(), per_layer, max_buckets);
  return {};
}

}  // namespace

int64_t EngramLayout::table_rows(int64_t layer_idx) const {
  FATHOM_CHECK(layer_idx >= 0 && layer_idx < num_layers);
  const auto last = static_cast<size_t>((layer_idx + 1) * columns() - 1);
  return bucket_starts[last] + primes[last];
}

Result<EngramLayout> make_engram_layout(const ModelConfig& config) {
  EngramLayout layout;
  if (config.engram_layer_ids.empty()) return layout;
  FATHOM_TRY(check_sizes(config));
  layout.num_layers = static_cast<int64_t>(config.engram_layer_ids.size());
  layout.max_ngram_size = config.engram_max_ngram_size;
  layout.num_heads = config.engram_n_heads;
  layout.compressed_vocab_size = config.engram_compressed_vocab_size;

  // Every search starts at engram_vocab_size and skips the primes handed out before. Those are always all
  // primes up to the last one, so one walk upward hands out the same.
  auto candidate = static_cast<uint64_t>(config.engram_vocab_size);
  for (int64_t layer = 0; layer < layout.num_layers; ++layer) {
    int64_t start = 0;
    for (int64_t column = 0; column < layout.columns(); ++column, ++candidate) {
      while (!is_prime(candidate)) ++candidate;
      layout.primes.push_back(static_cast<int64_t>(candidate));
      layout.bucket_starts.push_back(start);
      start += static_cast<int64_t>(candidate);
    }
  }

  const auto half = std::numeric_limits<int64_t>::max() / config.engram_compressed_vocab_size / 2;
  const auto bound = static_cast<uint64_t>(std::max<int64_t>(1, half));
  for (const int64_t layer_id : config.engram_layer_ids) {
    NumpyRandom random(10007 * static_cast<uint64_t>(layer_id));
    for (int64_t i = 0; i < layout.max_ngram_size; ++i)
      layout.multipliers.push_back(static_cast<int64_t>(random.below(bound) * 2 + 1));
  }
  return layout;
}

void engram_rows(const EngramLayout& layout, int64_t layer_idx, std::span<const int32_t> ids, size_t first,
                 int32_t pad, std::span<int64_t> rows) {
  FATHOM_CHECK(layer_idx >= 0 && layer_idx < layout.num_layers);
  FATHOM_CHECK_LE(first, ids.size());
  FATHOM_CHECK_EQ(rows.size(), (ids.size() - first) * static_cast<size_t>(layout.columns()));
  const int64_t* multipliers = layout.multipliers.data() + layer_idx * layout.max_ngram_size;
  const int64_t* primes = layout.primes.data() + layer_idx * layout.columns();
  const int64_t* starts = layout.bucket_starts.data() + layer_idx * layout.columns();

  int64_t* row = rows.data();
  for (size_t position = first; position < ids.size(); ++position) {
    bool stopped = false;
    // Below 2^63: a multiplier is at most (2^63 - 1) / vocabulary. Unsigned, so that no pad can overflow.
    uint64_t hash = 0;
    for (int64_t back = 0; back < layout.max_ngram_size; ++back) {
      const auto distance = static_cast<size_t>(back);
      const int32_t id = distance <= position ? ids[position - distance] : engram_dead;
      stopped = stopped || id < 0 || id >= layout.compressed_vocab_size;
      hash ^= static_cast<uint64_t>(stopped ? pad : id) * static_cast<uint64_t>(multipliers[back]);
      if (back == 0) continue;
      for (int64_t head = 0; head < layout.num_heads; ++head) {
        const int64_t column = (back - 1) * layout.num_heads + head;
        *row++ = starts[column] + static_cast<int64_t>(hash % static_cast<uint64_t>(primes[column]));
      }
    }
  }
}

}  // namespace fathom
