// Engram: table rows in, gated values out (spec 3, Write-back).
#include <atomic>
#include <vector>

#include "backend/cpu/kernels.h"

namespace fathom::cpu {

Status engram_gather(const Context& context, const EngramGatherParams& p) {
  const int64_t columns = p.ids.shape[1];
  const int64_t dim = p.table.in();
  const int64_t* ids = elements<int64_t>(p.ids);
  bf16* out = elements<bf16>(p.out);
  std::atomic<bool> bad_scale{false};
  context.pool.parallel_for(p.ids.shape[0], 4, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(dim));
    for (int64_t i = begin * columns; i < end * columns; ++i) {
      FATHOM_CHECK(ids[i] >= 0 && ids[i] < p.table.out());
      if (!load_row(p.table, ids[i], row.data())) bad_scale = true;
      for (int64_t d = 0; d < dim; ++d) out[i * dim + d] = to_bf16(row[static_cast<size_t>(d)]);
    }
  });
  if (bad_scale) return nan_scale(p.table);
  return {};
}

void engram_write(const Context& context, const EngramWriteParams& p) {
  const int64_t hc = p.stream.shape[1];
  const int64_t dim = p.stream.shape[2];
  const bf16* kv = elements<bf16>(p.kv);
  bf16* stream = elements<bf16>(p.stream);
  const uint8_t* dead = p.dead_rows.empty() ? nullptr : elements<uint8_t>(p.dead_rows);
  std::vector<float> qk(static_cast<size_t>(hc * dim));
  for (int64_t i = 0; i < hc * dim; ++i)
    qk[static_cast<size_t>(i)] = load_float(p.q_weight, i) * load_float(p.k_weight, i);
  const double inverse_sqrt_dim = std::pow(static_cast<double>(dim), -0.5);
  context.pool.parallel_for(p.stream.shape[0], 2, [&](int64_t begin, int64_t end) {
    std::vector<float> h(static_cast<size_t>(dim));
    std::vector<float> key(static_cast<size_t>(dim));
    for (int64_t r = begin; r < end; ++r) {
      if (dead != nullptr && dead[r]) continue;
      const bf16* value = kv + (r * (hc + 1) + hc) * dim;
      for (int64_t c = 0; c < hc; ++c) {
        bf16* at = stream + (r * hc + c) * dim;
        to_floats(at, dim, h.data());
        to_floats(kv + (r * (hc + 1) + c) * dim, dim, key.data());
        double dot = 0;
        for (int64_t i = 0; i < dim; ++i)
          dot += static_cast<double>(h[static_cast<size_t>(i)]) *
                 static_cast<double>(qk[static_cast<size_t>(c * dim + i)]) *
                 static_cast<double>(key[static_cast<size_t>(i)]);
        dot *= inverse_rms(context, h.data(), dim, p.norm_eps) *
               inverse_rms(context, key.data(), dim, p.norm_eps) * inverse_sqrt_dim;
        const double gate = sigmoid(std::copysign(std::sqrt(std::max(std::fabs(dot), 1e-6)), dot));
        for (int64_t i = 0; i < dim; ++i)
          at[i] = to_bf16(static_cast<double>(h[static_cast<size_t>(i)]) +
                          gate * static_cast<double>(to_float(value[i])));
      }
    }
  });
}

}  // namespace fathom::cpu
