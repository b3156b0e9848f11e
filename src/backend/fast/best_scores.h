// The k best of a stream of scores, in memory for about 2k of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <utility>

namespace fathom::fast {

/// A score and its index as one number: the larger the better, ties to the lower index. A total order, so
/// that a choice does not depend on how its stream was cut.
using Scored = uint64_t;

inline Scored scored(float score, int32_t index) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 ties with 0
  const uint32_t ordered = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(ordered) << 32 | ~static_cast<uint32_t>(index);
}
inline int32_t index_of(Scored s) { return static_cast<int32_t>(~static_cast<uint32_t>(s)); }
inline float score_of(Scored s) {
  const auto ordered = static_cast<uint32_t>(s >> 32);
  return std::bit_cast<float>(ordered >> 31 != 0 ? ordered & 0x7FFFFFFFu : ~ordered);
}

/// Moves the k largest of n different numbers to the front, 1 <= k <= n.
inline void select_largest(Scored* x, int64_t k, int64_t n) {
  // std::nth_element's partition branches on every comparison, half of them mispredicted.
  int64_t begin = 0;
  int64_t end = n;
  for (int tries = 0; end - begin > 16; ++tries) {
    if (tries == 40) break;  // unlucky pivots
    Scored* mid = x + (begin + end) / 2;
    if (x[begin] > *mid) std::swap(x[begin], *mid);
    if (*mid > x[end - 1]) std::swap(*mid, x[end - 1]);
    if (x[begin] > *mid) std::swap(x[begin], *mid);
    const Scored pivot = *mid;
    int64_t larger = begin;
    for (int64_t i = begin; i < end; ++i) {
      const Scored v = x[i];
      x[i] = x[larger];
      x[larger] = v;
      larger += v > pivot ? 1 : 0;
    }
    if (larger >= k)
      end = larger;
    else
      begin = larger;  // the pivot is the largest of what is left
    if (larger == k) return;
  }
  std::nth_element(x + begin, x + k - 1, x + end, [](Scored a, Scored b) { return a > b; });
}

/// A trivial type: it lives in working memory.
class BestScores {
 public:
  static constexpr int64_t chunk = 64;
  static int64_t capacity(int64_t k) { return 2 * k + chunk; }

  /// `memory` holds capacity(k), k >= 1.
  void start(Scored* memory, int64_t k) {
    memory_ = memory;
    k_ = k;
    count_ = 0;
    threshold_ = -std::numeric_limits<float>::infinity();
  }

  /// Scores at most this large need not be added: -inf (unreachable) never is.
  float threshold() const { return threshold_; }

  /// Adds `n` <= chunk scores; index_at(i) ascends within a call and from call to call, so that what ties
  /// with the k-th best is worse than it. NaN is left out.
  template <class IndexAt>
  void add(const float* scores, int64_t n, const IndexAt& index_at) {
    for (int64_t i = 0; i < n; ++i) {
      memory_[count_] = scored(scores[i], index_at(i));
      count_ += scores[i] > threshold_ ? 1 : 0;
    }
    if (count_ >= 2 * k_) keep_best();
  }

  /// Keeps k at most.
  void keep_best() {
    if (count_ <= k_) return;
    select_largest(memory_, k_, count_);
    count_ = k_;
    threshold_ = score_of(*std::min_element(memory_, memory_ + k_));
  }

  int64_t count() const { return count_; }
  const Scored* data() const { return memory_; }

 private:
  Scored* memory_;
  int64_t k_;
  int64_t count_;
  float threshold_;
};

}  // namespace fathom::fast
