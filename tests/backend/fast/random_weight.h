// Random weights in the stored formats.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "tensor/weight.h"

namespace fathom::testing {

/// Owns what its weight() views; movable, not copyable.
class RandomWeight {
 public:
  RandomWeight(DType dtype, int64_t out, int64_t in, uint32_t seed, std::string name = "w")
      : dtype_(dtype), out_(out), in_(in), name_(std::move(name)), scale_name_(name_ + ".scale") {
    std::mt19937 random(seed);
    codes_.resize(static_cast<size_t>(out * row_bytes()));
    for (uint8_t& c : codes_) c = static_cast<uint8_t>(random());
    if (dtype == DType::e4m3)
      for (uint8_t& c : codes_)
        if ((c & 127) == 127) c = 128;  // no NaN, but minus zeros
    if (dtype == DType::bf16) {
      std::normal_distribution<float> normal;
      for (size_t i = 0; i < codes_.size(); i += 2) {
        const bf16 v = to_bf16(normal(random));
        std::memcpy(codes_.data() + i, &v, 2);
      }
      return;
    }
    block_ = dtype == DType::e4m3 ? fp8_weight_block : fp4_weight_block;
    scale_rows_ = (out + block_.rows - 1) / block_.rows;
    scales_.resize(static_cast<size_t>(scale_rows_ * (in / block_.cols)));
    for (uint8_t& s : scales_) s = static_cast<uint8_t>(115 + random() % 12);
  }
  RandomWeight(RandomWeight&&) = default;
  RandomWeight(const RandomWeight&) = delete;

  Weight weight() const {
    const auto bytes = [](const std::vector<uint8_t>& v) {
      return reinterpret_cast<const std::byte*>(v.data());
    };
    const int64_t columns = dtype_ == DType::e2m1x2 ? in_ / 2 : in_;
    Weight w{{bytes(codes_), dtype_, Shape{out_, columns}, name_}, {}, {}};
    if (scales_.empty()) return w;
    w.scale = {bytes(scales_), DType::e8m0, Shape{scale_rows_, in_ / block_.cols}, scale_name_};
    w.block = block_;
    return w;
  }
  std::vector<uint8_t>& codes() { return codes_; }
  std::vector<uint8_t>& scales() { return scales_; }

 private:
  int64_t row_bytes() const {
    return dtype_ == DType::bf16 ? 2 * in_ : dtype_ == DType::e4m3 ? in_ : in_ / 2;
  }

  DType dtype_;
  int64_t out_, in_;
  std::string name_, scale_name_;
  std::vector<uint8_t> codes_, scales_;
  BlockShape block_;
  int64_t scale_rows_ = 0;
};

}  // namespace fathom::testing
