// The k best of a stream of scores, in memory for 2k of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/check.h"

namespace fathom::fast {

struct Scored {
  float score;
  int32_t index;
  /// The order of every choice among scores: a total one, so that a choice does not depend on how its stream
  /// was cut.
  bool better_than(const Scored& other) const {
    return score > other.score || (score == other.score && index < other.index);
  }
};

/// A trivial type: it lives in working memory.
class BestScores {
 public:
  static int64_t capacity(int64_t k) { return 2 * k; }

  /// `memory` holds capacity(k), k >= 1.
  void start(Scored* memory, int64_t k) {
    memory_ = memory;
    k_ = k;
    count_ = 0;
    threshold_ = -std::numeric_limits<float>::infinity();
  }

  /// Scores at most this large need not be added: -inf (unreachable) never is.
  float threshold() const { return threshold_; }

  /// Indices ascend from call to call, so that what ties with the k-th best is worse than it.
  void add(float score, int32_t index) {
    if (!(score > threshold_)) return;
    memory_[count_++] = {score, index};
    if (count_ == capacity(k_)) keep_best();
  }

  /// Keeps k at most.
  void keep_best() {
    if (count_ <= k_) return;
    std::nth_element(memory_, memory_ + k_ - 1, memory_ + count_, better);
    count_ = k_;
    threshold_ = memory_[k_ - 1].score;
  }

  int64_t count() const { return count_; }
  const Scored* data() const { return memory_; }

 private:
  static bool better(const Scored& a, const Scored& b) { return a.better_than(b); }

  Scored* memory_;
  int64_t k_;
  int64_t count_;
  float threshold_;
};

}  // namespace fathom::fast
