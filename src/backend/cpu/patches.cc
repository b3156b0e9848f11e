// What the vision tower does with the patches of an image: rotation, attention, cells (spec 5).
#include <vector>

#include "backend/cpu/kernels.h"

namespace fathom::cpu {
namespace {

// cos and sin of a patch's angles, rounded from f64. Unlike the text model's, the angles themselves are not
// rounded to f32.
class PatchRotation {
 public:
  PatchRotation(int64_t head_dim, double theta) : half_(static_cast<size_t>(head_dim / 2)) {
    FATHOM_CHECK_EQ(head_dim % 4, 0);
    for (size_t i = 0; i < half_ / 2; ++i)
      freqs_.push_back(1.0 / std::pow(theta, static_cast<double>(2 * i) / static_cast<double>(half_)));
    cosine_.resize(half_);
    sine_.resize(half_);
  }

  void set(int64_t row, int64_t col) {
    for (size_t i = 0; i < half_; ++i) {
      const bool by_row = i < half_ / 2;
      const double angle = static_cast<double>(by_row ? row : col) * freqs_[by_row ? i : i - half_ / 2];
      cosine_[i] = static_cast<float>(std::cos(angle));
      sine_[i] = static_cast<float>(std::sin(angle));
    }
  }

  void apply(bf16* head) const {
    for (size_t i = 0; i < half_; ++i) {
      const float a = to_float(head[i]);
      const float b = to_float(head[half_ + i]);
      head[i] = to_bf16(a * cosine_[i] - b * sine_[i]);
      head[half_ + i] = to_bf16(b * cosine_[i] + a * sine_[i]);
    }
  }

 private:
  size_t half_;
  std::vector<double> freqs_;
  std::vector<float> cosine_, sine_;
};

}  // namespace

void patch_rope(const Context& context, const PatchRopeParams& p) {
  const int64_t heads = p.qkv.shape[2];
  const int64_t dim = p.qkv.shape[3];
  FATHOM_CHECK_EQ(p.qkv.shape[1], 3);
  bf16* qkv = elements<bf16>(p.qkv);
  context.pool.parallel_for(p.qkv.shape[0], 16, [&](int64_t begin, int64_t end) {
    PatchRotation rotation(dim, p.theta);
    for (int64_t r = begin; r < end; ++r) {
      const int64_t patch = p.first_patch + r;
      rotation.set(patch / p.patch_cols, patch % p.patch_cols);
      // The heads of q and of k stand one after the other.
      for (int64_t h = 0; h < 2 * heads; ++h) rotation.apply(qkv + (r * 3 * heads + h) * dim);
    }
  });
}

void patch_attention(const Context& context, const PatchAttentionParams& p) {
  const int64_t patches = p.qkv.shape[0];
  const int64_t heads = p.qkv.shape[2];
  const int64_t dim = p.qkv.shape[3];
  const int64_t queries = p.out.shape[0];
  FATHOM_CHECK_EQ(p.qkv.shape[1], 3);
  FATHOM_CHECK_EQ(p.out.shape[1], heads);
  FATHOM_CHECK_EQ(p.out.shape[2], dim);
  FATHOM_CHECK_LE(p.first_query + queries, patches);
  const bf16* qkv = elements<bf16>(p.qkv);
  bf16* out = elements<bf16>(p.out);
  // Part 0, 1, 2 (q, k, v) of a patch for one head.
  const auto part_of = [&](int64_t patch, int64_t part, int64_t head) {
    return qkv + ((patch * 3 + part) * heads + head) * dim;
  };
  float* keys = context.scratch.floats(Scratch::keys, patches * dim);
  float* values = context.scratch.floats(Scratch::values, patches * dim);
  std::vector<const float*> key_rows, value_rows;
  for (int64_t k = 0; k < patches; ++k) {
    key_rows.push_back(keys + k * dim);
    value_rows.push_back(values + k * dim);
  }

  constexpr int64_t block = 4;  // queries that pass over the keys together
  for (int64_t h = 0; h < heads; ++h) {
    context.pool.parallel_for(patches, 64, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        to_floats(part_of(k, 1, h), dim, keys + k * dim);
        to_floats(part_of(k, 2, h), dim, values + k * dim);
      }
    });
    context.pool.parallel_for_workers(queries, block, [&](int64_t begin, int64_t end, int worker) {
      Scratch& scratch = context.worker[static_cast<size_t>(worker)];
      float* q = scratch.floats(Scratch::queries, block * dim);
      float* o = scratch.floats(Scratch::attended, block * dim);
      const float* query_rows[block];
      for (int64_t i = begin; i < end; ++i) {
        query_rows[i - begin] = q + (i - begin) * dim;
        to_floats(part_of(p.first_query + i, 0, h), dim, q + (i - begin) * dim);
      }
      std::vector<double> scores;
      attend(context,
             {.queries = query_rows,
              .num_queries = end - begin,
              .keys = key_rows.data(),
              .values = value_rows.data(),
              .num_keys = patches,
              .dim = dim},
             scores, o);
      for (int64_t i = begin; i < end; ++i)
        for (int64_t d = 0; d < dim; ++d) out[(i * heads + h) * dim + d] = to_bf16(o[(i - begin) * dim + d]);
    });
  }
}

void gather_cells(const Context& context, const GatherCellsParams& p) {
  const int64_t dim = p.patches.shape[1];
  const int64_t patch_rows = p.patches.shape[0] / p.patch_cols;
  const int64_t cell_cols = (p.patch_cols + p.ratio - 1) / p.ratio;
  const int64_t area = p.ratio * p.ratio;
  FATHOM_CHECK_EQ(p.out.shape[1], dim * area);
  const bf16* patches = elements<bf16>(p.patches);
  bf16* out = elements<bf16>(p.out);
  context.pool.parallel_for(p.out.shape[0], 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t cell = p.first_cell + r;
      for (int64_t i = 0; i < area; ++i) {
        const int64_t row = cell / cell_cols * p.ratio + i / p.ratio;
        const int64_t col = cell % cell_cols * p.ratio + i % p.ratio;
        const bool inside = row < patch_rows && col < p.patch_cols;
        const bf16* from = patches + (row * p.patch_cols + col) * dim;
        for (int64_t c = 0; c < dim; ++c) out[(r * dim + c) * area + i] = inside ? from[c] : to_bf16(0.0f);
      }
    }
  });
}

}  // namespace fathom::cpu
