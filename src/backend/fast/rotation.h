// The rotations of a row's heads by its position (spec 1, Attention).
#pragma once

#include <cmath>

#include "backend/cpu/context.h"
#include "backend/fast/context.h"

namespace fathom::fast {

/// cos and sin of one position's angles, in a worker's scratch until the next is set.
class RowRotation {
 public:
  RowRotation(const Context& context, const TensorView& freqs, Scratch& scratch)
      : context_(context), pairs_(freqs.shape[0]), freqs_(cpu::elements<float>(freqs)) {
    angles_ = scratch.take<double>(Scratch::rotation, 2 * pairs_);  // half of it for two rows of floats
    cosine_ = reinterpret_cast<float*>(angles_ + pairs_);
  }

  int64_t pairs() const { return pairs_; }

  /// The angle is an f32 product.
  void set(int64_t position, bool inverse = false) {
    bool small = true;
    for (int64_t i = 0; i < pairs_; ++i) {
      angles_[i] = static_cast<double>(static_cast<float>(position) * freqs_[i]);
      small &= std::fabs(angles_[i]) <= 0x1p20;
    }
    float* sine = cosine_ + pairs_;
    if (small) {
      context_.rows.cos_sin(angles_, pairs_, cosine_, sine);
    } else {
      for (int64_t i = 0; i < pairs_; ++i) {
        cosine_[i] = static_cast<float>(std::cos(angles_[i]));
        sine[i] = static_cast<float>(std::sin(angles_[i]));
      }
    }
    if (inverse)
      for (int64_t i = 0; i < pairs_; ++i) sine[i] = -sine[i];
  }

  /// Turns the last values of `heads` heads of `dim`.
  void apply(bf16* x, int64_t heads, int64_t dim) const {
    context_.rows.rotate_pairs(x + dim - 2 * pairs_, heads, dim, pairs_, cosine_, cosine_ + pairs_);
  }

 private:
  const Context& context_;
  int64_t pairs_;
  const float* freqs_;
  double* angles_;
  float* cosine_;
};

}  // namespace fathom::fast
