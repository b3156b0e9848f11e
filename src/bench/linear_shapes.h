// The matrices of a model that rows are multiplied with.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"
#include "tensor/dtype.h"

namespace fathom::bench {

struct LinearShape {
  enum class Format { bf16, fp8, fp4 };

  std::string name;
  int64_t out = 0, in = 0;
  int64_t groups = 1;  // above 1: grouped_linear, whose input is groups * in and output groups * out wide
  Format format = Format::fp8;
  DType result = DType::bf16;
  int64_t max_rows = 0;  // 0: any number
};

std::vector<LinearShape> linear_shapes(const ModelConfig& config);

}  // namespace fathom::bench
