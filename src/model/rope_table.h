// Rotary frequencies (spec 1, Attention): one table per rope setting.
#pragma once

#include <cstdint>
#include <vector>

namespace fathom {

struct RopeSetting {
  int64_t dim = 0;  // rotated values of a head
  double theta = 10000;
  int64_t original_seq_len = 0;  // 0: no YaRN
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
};

/// f32 frequencies [dim / 2].
std::vector<float> rope_frequencies(const RopeSetting&);

}  // namespace fathom
