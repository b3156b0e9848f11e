#include "model/vision_tower.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/cancel.h"
#include "model/trace_tensors.h"

namespace fathom {
namespace {

constexpr double norm_eps = 1e-6;  // of the tower's norms (spec 5, ViT)

// What each of the 256 levels is to the model.
std::array<bf16, 256> level_values() {
  std::array<bf16, 256> values;
  for (size_t level = 0; level < values.size(); ++level)
    values[level] = to_bf16(image_value(static_cast<uint8_t>(level)));
  return values;
}

Status check_image(const VisionConfig& c, const PreparedImage& image) {
  const ImagePlan& plan = image.plan;
  if (plan.patch_rows < 1 || plan.patch_cols < 1)
    return fail(ErrorCode::invalid_argument, "an image of {} x {} patches, expected at least one",
                plan.patch_rows, plan.patch_cols);
  const auto cells = [&](int64_t patches) { return (patches - 1) / c.downsample_ratio + 1; };
  if (plan.grid_rows != cells(plan.patch_rows) || plan.grid_cols != cells(plan.patch_cols))
    return fail(ErrorCode::invalid_argument,
                "an image of {} x {} patches, expected {} x {} cells, found {} x {}", plan.patch_rows,
                plan.patch_cols, cells(plan.patch_rows), cells(plan.patch_cols), plan.grid_rows,
                plan.grid_cols);
  // Either side alone is below the limit first: the product cannot overflow then.
  if (std::max(plan.grid_rows, plan.grid_cols) > c.max_n_token || plan.tokens() > c.max_n_token)
    return fail(ErrorCode::invalid_argument,
                "an image of {} x {} patches, expected one that fits max_image_tokens = {}", plan.patch_rows,
                plan.patch_cols, c.max_n_token);
  const int64_t levels = plan.patches() * 3 * c.patch_size * c.patch_size;
  if (std::cmp_not_equal(image.levels.size(), levels))
    return fail(ErrorCode::invalid_argument, "an image of {} x {} patches: expected {} levels, found {}",
                plan.patch_rows, plan.patch_cols, levels, image.levels.size());
  return {};
}

}  // namespace

// One image on its way through the tower: its activations and the steps over them.
class VisionTower::Pass {
 public:
  Pass(const VisionTower& tower, const PreparedImage& image, const EmbedImageHooks& hooks)
      : config_(tower.config_),
        dim_(tower.dim_),
        chunk_rows_(tower.chunk_rows_),
        ops_(tower.ops_),
        w_(tower.weights_),
        image_(image),
        plan_(image.plan),
        hooks_(hooks),
        patches_(image.plan.patches()) {}

  Status allocate();
  /// Levels to x.
  Status embed_patches();
  /// x through all blocks and the last norm.
  Status run_blocks();
  /// x to the IMAGE rows of `span`, bf16 [tokens, dim], and the checkpoint's rows to the others.
  Status fill_span(const TensorRef& span);

 private:
  int64_t layout(std::byte* base);
  template <class Body>
  Status for_chunks(int64_t rows, const Body& body) const;
  Status linear(const TensorRef& in, const BiasedWeight& w, const TensorRef& out) const {
    return ops_.linear({.in = in, .weight = w.weight, .bias = w.bias, .out = out});
  }
  void norm(const TensorRef& in, const TensorView& weight, const TensorRef& out) const {
    ops_.rms_norm({.in = in, .weight = weight, .eps = norm_eps, .out = out});
  }
  void place(const TensorView& rows, const TensorRef& span, int64_t first) const {
    const int64_t n = rows.shape[0];
    ops_.place_rows({.rows = rows, .stream = span.slice(first, n).reshaped({n, 1, dim_})});
  }
  Status project_qkv(const VisionBlockWeights& w, int64_t first, int64_t n);
  Status attend(const VisionBlockWeights& w, int64_t first, int64_t n);
  Status feed_forward(const VisionBlockWeights& w, int64_t first, int64_t n);

  const VisionConfig& config_;
  int64_t dim_;
  int64_t chunk_rows_;
  Ops& ops_;
  const VisionWeights& w_;
  const PreparedImage& image_;
  const ImagePlan& plan_;
  const EmbedImageHooks& hooks_;
  int64_t patches_;

  Buffer memory_;
  TensorRef x_;            // bf16 [patches, vision dim]
  TensorRef qkv_;          // bf16 [patches, 3 * vision dim]
  TensorRef pixels_;       // bf16 [chunk, 3 * patch_size^2]
  TensorRef normed_, y_;   // bf16 [chunk, vision dim]
  TensorRef gate_up_;      // bf16 [chunk, 2 * inter_dim]
  TensorRef hidden_;       // bf16 [chunk, inter_dim]
  TensorRef cells_;        // bf16 [chunk, vision dim * downsample_ratio^2]
  TensorRef mixed_, out_;  // bf16 [chunk, dim]
};

// Places every tensor behind `base` (which may be null, to count) and returns the bytes in all.
int64_t VisionTower::Pass::layout(std::byte* base) {
  constexpr int64_t alignment = 64;
  int64_t offset = 0;
  const auto place = [&](TensorRef& t, int64_t rows, int64_t columns) {
    t = {base == nullptr ? nullptr : base + offset, DType::bf16, Shape{rows, columns}};
    offset += (t.shape.elements() * dtype_bytes(t.dtype) + alignment - 1) / alignment * alignment;
  };
  const int64_t chunk = std::min(chunk_rows_, patches_);
  place(x_, patches_, config_.dim);
  place(qkv_, patches_, 3 * config_.dim);
  place(pixels_, chunk, 3 * config_.patch_size * config_.patch_size);
  place(normed_, chunk, config_.dim);
  place(y_, chunk, config_.dim);
  place(gate_up_, chunk, 2 * config_.inter_dim);
  place(hidden_, chunk, config_.inter_dim);
  place(cells_, chunk, config_.dim * config_.downsample_ratio * config_.downsample_ratio);
  place(mixed_, chunk, dim_);
  place(out_, chunk, dim_);
  return offset;
}

Status VisionTower::Pass::allocate() {
  FATHOM_ASSIGN(memory_, ops_.allocate(layout(nullptr)));
  layout(memory_.data());
  return {};
}

// body(first, n) for all rows, unless it is cancelled.
template <class Body>
Status VisionTower::Pass::for_chunks(int64_t rows, const Body& body) const {
  for (int64_t first = 0; first < rows; first += chunk_rows_) {
    FATHOM_TRY(check_cancelled(hooks_.cancelled));
    FATHOM_TRY(body(first, std::min(chunk_rows_, rows - first)));
  }
  return {};
}

Status VisionTower::Pass::embed_patches() {
  const std::array<bf16, 256> value_of = level_values();
  const int64_t row = pixels_.row_elements();
  std::vector<bf16> values;
  return for_chunks(patches_, [&](int64_t first, int64_t n) {
    const auto levels =
        std::span(image_.levels).subspan(static_cast<size_t>(first * row), static_cast<size_t>(n * row));
    values.clear();
    for (const uint8_t level : levels) values.push_back(value_of[level]);
    ops_.copy_in(pixels_.head(n), values.data());
    return linear(pixels_.head(n), w_.patch_embed, x_.slice(first, n));
  });
}

Status VisionTower::Pass::run_blocks() {
  const auto total = static_cast<int64_t>(w_.blocks.size());
  if (hooks_.progress) hooks_.progress(0, total);
  for (int64_t i = 0; i < total; ++i) {
    const VisionBlockWeights& w = w_.blocks[static_cast<size_t>(i)];
    FATHOM_TRY(for_chunks(patches_, [&](int64_t first, int64_t n) { return project_qkv(w, first, n); }));
    FATHOM_TRY(for_chunks(patches_, [&](int64_t first, int64_t n) { return attend(w, first, n); }));
    FATHOM_TRY(for_chunks(patches_, [&](int64_t first, int64_t n) { return feed_forward(w, first, n); }));
    if (hooks_.progress) hooks_.progress(i + 1, total);
  }
  norm(x_, w_.norm, x_);
  if (hooks_.trace != nullptr) trace_tensor(*hooks_.trace, ops_, "vision.features", x_);
  return {};
}

Status VisionTower::Pass::project_qkv(const VisionBlockWeights& w, int64_t first, int64_t n) {
  const TensorRef qkv = qkv_.slice(first, n);
  norm(x_.slice(first, n), w.norm1, normed_.head(n));
  FATHOM_TRY(linear(normed_.head(n), w.wqkv, qkv));
  ops_.patch_rope({.qkv = qkv.reshaped({n, 3, config_.n_heads, config_.dim / config_.n_heads}),
                   .first_patch = first,
                   .patch_cols = plan_.patch_cols,
                   .theta = config_.rope_theta});
  return {};
}

Status VisionTower::Pass::attend(const VisionBlockWeights& w, int64_t first, int64_t n) {
  const int64_t head_dim = config_.dim / config_.n_heads;
  const TensorRef attended = normed_.head(n);
  ops_.patch_attention({.qkv = qkv_.reshaped({patches_, 3, config_.n_heads, head_dim}),
                        .first_query = first,
                        .out = attended.reshaped({n, config_.n_heads, head_dim})});
  FATHOM_TRY(linear(attended, w.wo, y_.head(n)));
  ops_.add({.y = y_.head(n), .x = x_.slice(first, n)});
  return {};
}

Status VisionTower::Pass::feed_forward(const VisionBlockWeights& w, int64_t first, int64_t n) {
  norm(x_.slice(first, n), w.norm2, normed_.head(n));
  FATHOM_TRY(ops_.linear({.in = normed_.head(n), .weight = w.w1, .out = gate_up_.head(n)}));
  ops_.gated_silu({.gate_up = gate_up_.head(n), .out = hidden_.head(n)});
  FATHOM_TRY(ops_.linear({.in = hidden_.head(n), .weight = w.w2, .out = y_.head(n)}));
  ops_.add({.y = y_.head(n), .x = x_.slice(first, n)});
  return {};
}

Status VisionTower::Pass::fill_span(const TensorRef& span) {
  place(w_.image_start, span, 0);
  for (int64_t r = 0; r < plan_.grid_rows; ++r)
    place(w_.image_newline, span, (r + 1) * (plan_.grid_cols + 1));
  place(w_.image_end, span, plan_.tokens() - 1);
  return for_chunks(plan_.grid_rows * plan_.grid_cols, [&](int64_t first, int64_t n) -> Status {
    ops_.gather_cells({.patches = x_,
                       .patch_cols = plan_.patch_cols,
                       .ratio = config_.downsample_ratio,
                       .first_cell = first,
                       .out = cells_.head(n)});
    FATHOM_TRY(linear(cells_.head(n), w_.aligner_w1, mixed_.head(n)));
    ops_.gelu({.x = mixed_.head(n)});
    FATHOM_TRY(linear(mixed_.head(n), w_.aligner_w2, out_.head(n)));
    // As many at a time as stand together: to the end of a row of cells.
    for (int64_t cell = first; cell < first + n;) {
      const int64_t count = std::min(plan_.grid_cols - cell % plan_.grid_cols, first + n - cell);
      place(out_.slice(cell - first, count), span, 1 + cell + cell / plan_.grid_cols);
      cell += count;
    }
    return {};
  });
}

VisionTower::VisionTower(const ModelConfig& config, const TensorTable& tensors, Ops& ops, int64_t chunk_rows)
    : config_(*config.vision),
      dim_(config.dim),
      chunk_rows_(chunk_rows),
      ops_(ops),
      weights_(bind_vision_weights(config_, tensors)) {}

Result<std::shared_ptr<const ImageEmbedding>> VisionTower::embed(const PreparedImage& image,
                                                                 const EmbedImageHooks& hooks) const {
  FATHOM_TRY(check_image(config_, image));
  Pass pass(*this, image, hooks);
  FATHOM_TRY(pass.allocate());
  FATHOM_TRY(pass.embed_patches());
  FATHOM_TRY(pass.run_blocks());

  auto out = std::make_shared<ImageEmbedding>();
  out->identity = image.identity;
  out->grid_rows = image.plan.grid_rows;
  out->grid_cols = image.plan.grid_cols;
  FATHOM_ASSIGN(out->memory, ops_.allocate(image.plan.tokens() * dim_ * dtype_bytes(DType::bf16)));
  out->rows = {out->memory.data(), DType::bf16, Shape{image.plan.tokens(), dim_}};
  FATHOM_TRY(pass.fill_span(out->rows));

  std::vector<bf16> values(static_cast<size_t>(out->rows.shape.elements()));
  ops_.copy_out(values.data(), out->rows);
  if (!std::all_of(values.begin(), values.end(), [](bf16 v) { return std::isfinite(to_float(v)); }))
    return fail(ErrorCode::format,
                "the image's embeddings are not finite: the checkpoint holds NaN or out-of-range weights");
  return out;
}

}  // namespace fathom
