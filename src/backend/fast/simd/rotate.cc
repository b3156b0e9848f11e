// Rotary embeddings: cos and sin of angles, and turning pairs by them.
#include "backend/fast/simd/row_kernels.h"
#include "backend/fast/simd/vec.h"

namespace fathom::fast::FATHOM_ISA {
namespace {

typedef double f64native __attribute__((vector_size(FATHOM_NATIVE_BYTES)));
typedef int64_t i64native __attribute__((vector_size(FATHOM_NATIVE_BYTES)));
constexpr int doubles = FATHOM_NATIVE_BYTES / 8;

template <int N>
FATHOM_SIMD f64native polynomial(f64native z, const double (&coefficients)[N]) {
  f64native p = coefficients[0] - f64native{};
  for (int i = 1; i < N; ++i) p = p * z + coefficients[i];
  return p;
}

// In f64, for |angle| <= 2^20: within 1e-15 or so, of which f32 keeps the nearest number. The polynomials
// are those of Sun's fdlibm on [-pi/4, pi/4].
FATHOM_SIMD void cos_sin(const double* angles, float* cosine, float* sine) {
  f64native x;
  __builtin_memcpy(&x, angles, sizeof(x));
  const f64native magic = 0x1.8p52 - f64native{};
  const f64native shifted = x * 0x1.45f306dc9c883p-1 + magic;  // the last bits: the quarter turns
  const f64native n = shifted - magic;
  // pi / 2 in two parts; n times the first (33 bits) is exact.
  const f64native r = (x - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34;
  const f64native z = r * r;
  constexpr double sine_terms[] = {1.58969099521155010221e-10, -2.50507602534068634195e-08,
                                   2.75573137070700676789e-06, -1.98412698298579493134e-04,
                                   8.33333333332248946124e-03, -1.66666666666666324348e-01};
  constexpr double cosine_terms[] = {-1.13596475577881948265e-11, 2.08757232129817482790e-09,
                                     -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                                     -1.38888888888741095749e-03, 4.16666666666666019037e-02};
  const f64native s = r + r * z * polynomial(z, sine_terms);
  const f64native c = 1.0 - (0.5 * z - z * z * polynomial(z, cosine_terms));
  const i64native quarter = (i64native)shifted;
  const i64native odd = -(quarter & 1);
  const i64native sign_s = (quarter & 2) << 62;
  const i64native sign_c = ((quarter + 1) & 2) << 62;
  const f64native out_s = (f64native)(((odd & (i64native)c) | (~odd & (i64native)s)) ^ sign_s);
  const f64native out_c = (f64native)(((odd & (i64native)s) | (~odd & (i64native)c)) ^ sign_c);
  for (int i = 0; i < doubles; ++i) {
    cosine[i] = static_cast<float>(out_c[i]);
    sine[i] = static_cast<float>(out_s[i]);
  }
}

void cos_sin_of(const double* angles, int64_t n, float* cosine, float* sine) {
  int64_t i = 0;
  for (; i + doubles <= n; i += doubles) cos_sin(angles + i, cosine + i, sine + i);
  if (i == n) return;
  double last[doubles] = {};
  float c[doubles];
  float s[doubles];
  __builtin_memcpy(last, angles + i, static_cast<size_t>(n - i) * sizeof(double));
  cos_sin(last, c, s);
  __builtin_memcpy(cosine + i, c, static_cast<size_t>(n - i) * sizeof(float));
  __builtin_memcpy(sine + i, s, static_cast<size_t>(n - i) * sizeof(float));
}

void rotate_pairs(bf16* x, int64_t heads, int64_t stride, int64_t pairs, const float* cosine,
                  const float* sine) {
  int64_t i = 0;
  for (; i + 16 <= pairs; i += 16) {
    const f32x16 c = load(cosine + i);
    const f32x16 s = load(sine + i);
    for (int64_t h = 0; h < heads; ++h) {
      auto* at = reinterpret_cast<uint32_t*>(x + h * stride + 2 * i);
      const u32x16 u = load_u32(at);
      const f32x16 a = float_of_bits(u << 16);
      const f32x16 b = float_of_bits(u & splat_u32(0xFFFF0000u));
      store_u32(at, bf16_bits(a * c - b * s) >> 16 | bf16_bits(a * s + b * c));
    }
  }
  if (i == pairs) return;
  const FirstLanes rest{pairs - i};
  const f32x16 c = load(cosine + i, rest);
  const f32x16 s = load(sine + i, rest);
  for (int64_t h = 0; h < heads; ++h) {
    bf16* at = x + h * stride + 2 * i;
    Padded<uint32_t> all;
    __builtin_memcpy(all.lane, at, static_cast<size_t>(rest.count) * 4);
    const u32x16 u = load_u32(all.lane);
    const f32x16 a = float_of_bits(u << 16);
    const f32x16 b = float_of_bits(u & splat_u32(0xFFFF0000u));
    store_u32(all.lane, bf16_bits(a * c - b * s) >> 16 | bf16_bits(a * s + b * c));
    __builtin_memcpy(at, all.lane, static_cast<size_t>(rest.count) * 4);
  }
}

void rotate_halves(bf16* x, int64_t heads, int64_t half, const float* cosine, const float* sine) {
  for (int64_t h = 0; h < heads; ++h) {
    bf16* at = x + h * 2 * half;
    for_lanes(
        half, FATHOM_LANES {
          const f32x16 a = load_bf16(at + i, lanes);
          const f32x16 b = load_bf16(at + half + i, lanes);
          const f32x16 c = load(cosine + i, lanes);
          const f32x16 s = load(sine + i, lanes);
          store_bf16(at + i, a * c - b * s, lanes);
          store_bf16(at + half + i, b * c + a * s, lanes);
        });
  }
}

}  // namespace

void add_rotate_kernels(RowKernels& to) {
  to.cos_sin = cos_sin_of;
  to.rotate_pairs = rotate_pairs;
  to.rotate_halves = rotate_halves;
}

}  // namespace fathom::fast::FATHOM_ISA
