#include "model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fathom {

std::vector<float> rope_frequencies(const RopeSetting& s) {
  const auto pairs = static_cast<size_t>(s.dim / 2);
  std::vector<float> freqs(pairs);
  for (size_t i = 0; i < pairs; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(s.dim);
    freqs[i] = 1.0f / static_cast<float>(std::pow(s.theta, static_cast<double>(exponent)));
  }
  if (s.original_seq_len <= 0) return freqs;

  // The dimension whose wavelength makes `rotations` turns over the original context.
  const auto dimension_of = [&](double rotations) {
    return static_cast<double>(s.dim) *
           std::log(static_cast<double>(s.original_seq_len) / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(s.theta));
  };
  const double low = std::max(std::floor(dimension_of(s.beta_fast)), 0.0);
  const double high = std::min(std::ceil(dimension_of(s.beta_slow)), static_cast<double>(s.dim - 1));
  const auto width = static_cast<float>(std::max(high - low, 1e-3));
  const auto factor = static_cast<float>(s.factor);
  for (size_t i = 0; i < pairs; ++i) {
    const float ramp = std::clamp((static_cast<float>(i) - static_cast<float>(low)) / width, 0.0f, 1.0f);
    const float smooth = 1 - ramp;
    freqs[i] = freqs[i] / factor * (1 - smooth) + freqs[i] * smooth;
  }
  return freqs;
}

}  // namespace fathom
