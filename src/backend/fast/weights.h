// Small float parameters (norm weights, mixing coefficients) as f32.
#pragma once

#include <cstdint>

#include "backend/fast/context.h"
#include "tensor/weight.h"

namespace fathom::fast {

/// Elements [0, n) of a float tensor: in place where they are f32 and aligned as such, else in scratch.
inline const float* floats_of(const Context& context, const TensorView& t, int64_t n, Scratch::Slot slot) {
  FATHOM_CHECK_LE(n, t.shape.elements());
  if (t.dtype == DType::f32 && reinterpret_cast<uintptr_t>(t.data) % alignof(float) == 0)
    return reinterpret_cast<const float*>(t.data);
  auto* out = context.scratch.take<float>(slot, n);
  if (t.dtype == DType::bf16)
    context.rows.to_floats(reinterpret_cast<const bf16*>(t.data), n, out);
  else
    load_floats(t, 0, n, out);
  return out;
}

}  // namespace fathom::fast
