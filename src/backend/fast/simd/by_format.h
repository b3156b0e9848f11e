// From a weight format at run time to one at compile time.
#pragma once

#include "backend/fast/simd/linear_kernels.h"

namespace fathom::fast {

/// body.template operator()<format>().
template <class Body>
[[gnu::always_inline]] static inline auto by_format(WeightFormat format, const Body& body) {
  switch (format) {
    case WeightFormat::fp4:
      return body.template operator()<WeightFormat::fp4>();
    case WeightFormat::fp8:
      return body.template operator()<WeightFormat::fp8>();
    case WeightFormat::bf16:
      break;
  }
  return body.template operator()<WeightFormat::bf16>();
}

}  // namespace fathom::fast
