// Linear layers: input preparation and the product (spec 1, "Linear layers and their rounding").
#include "backend/cpu/kernels.h"
#include "backend/cpu/multiply.h"
#include "base/page_advice.h"
#include "tensor/quantize.h"

namespace fathom::cpu {

Status nan_scale(const Weight& weight) {
  return fail(ErrorCode::format, "{}: expected E8M0 scales, found NaN (0xFF)", weight.scale.name);
}

void will_need(const Weight& weight) {
  // A small weight comes in with a few page faults, and is resident in all likelihood: no call is cheaper.
  constexpr int64_t worth_a_call = int64_t{1} << 20;
  if (weight.data.bytes() < worth_a_call) return;
  advise_will_need({weight.data.data, static_cast<size_t>(weight.data.bytes())});
  if (weight.quantized()) advise_will_need({weight.scale.data, static_cast<size_t>(weight.scale.bytes())});
}

void prepare_input(const Context& context, const bf16* in, int64_t rows, int64_t n, bool quantize,
                   float* out) {
  context.pool.parallel_for(rows, 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      to_floats(in + r * n, n, out + r * n);
      if (quantize) round_to_fp8_grid(out + r * n, n);
    }
  });
}

Status linear(const Context& context, const LinearParams& p) {
  const int64_t rows = p.in.shape[0];
  const int64_t in = p.weight.in();
  const int64_t out = p.weight.out();
  FATHOM_CHECK_EQ(p.in.shape[1], in);
  FATHOM_CHECK_EQ(p.out.shape[0], rows);
  FATHOM_CHECK_EQ(p.out.shape[1], out);
  will_need(p.weight);
  float* x = context.scratch.floats(Scratch::input, rows * in);
  prepare_input(context, elements<bf16>(p.in), rows, in, p.weight.quantized(), x);
  const auto product = [&](const auto& store) {
    return multiply(context, x, rows, in, p.weight, 0, out, store);
  };
  if (p.out.dtype == DType::f32) {
    FATHOM_CHECK(p.bias.empty());
    float* y = elements<float>(p.out);
    return product([&](int64_t r, int64_t o, double v) { y[r * out + o] = static_cast<float>(v); });
  }
  bf16* y = elements<bf16>(p.out);
  if (p.bias.empty()) return product([&](int64_t r, int64_t o, double v) { y[r * out + o] = to_bf16(v); });
  FATHOM_CHECK_EQ(p.bias.shape[0], out);
  std::vector<float> bias(static_cast<size_t>(out));
  load_floats(p.bias, 0, out, bias.data());
  return product([&](int64_t r, int64_t o, double v) {
    y[r * out + o] = to_bf16(v + static_cast<double>(bias[static_cast<size_t>(o)]));
  });
}

Status grouped_linear(const Context& context, const GroupedLinearParams& p) {
  const int64_t rows = p.in.shape[0];
  const int64_t in = p.weight.in();
  const int64_t out = p.weight.out();
  const int64_t group_out = out / p.groups;
  FATHOM_CHECK_EQ(p.in.shape[1], in * p.groups);
  FATHOM_CHECK_EQ(p.out.shape[1], out);
  will_need(p.weight);
  float* x = context.scratch.floats(Scratch::input, rows * in * p.groups);
  prepare_input(context, elements<bf16>(p.in), rows, in * p.groups, false, x);
  bf16* y = elements<bf16>(p.out);
  for (int64_t g = 0; g < p.groups; ++g) {
    FATHOM_TRY(
        multiply(context, x + g * in, rows, in * p.groups, p.weight, g * group_out, group_out,
                 [&](int64_t r, int64_t o, double v) { y[r * out + g * group_out + o] = to_bf16(v); }));
  }
  return {};
}

}  // namespace fathom::cpu
