#include "model/model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "model/rope_table.h"
#include "model/tokenizer_match.h"
#include "model/trace_tensors.h"

namespace fathom {

Result<std::unique_ptr<Model>> Model::load(const std::filesystem::path& directory, Ops& ops,
                                           const std::optional<MemoryOptions>& memory, int64_t context) {
  FATHOM_ASSIGN(ModelConfig config, load_config(directory));
  if (context > 0) config.max_seq_len = std::min(config.max_seq_len, context);
  FATHOM_ASSIGN(Tokenizer tokenizer, Tokenizer::load(directory));
  FATHOM_ASSIGN(TokenMap token_map, match_tokenizer(config, tokenizer));
  FATHOM_ASSIGN(EngramLayout engram, make_engram_layout(config));
  FATHOM_ASSIGN(Checkpoint checkpoint, Checkpoint::open(directory));
  FATHOM_ASSIGN(TensorTable tensors, TensorTable::bind(checkpoint, config));
  std::unique_ptr<Model> model(new Model(std::move(config), std::move(tokenizer), std::move(token_map),
                                         std::move(engram), std::move(checkpoint), std::move(tensors), ops));
  FATHOM_TRY(model->prepare_rope());
  if (memory) FATHOM_TRY(model->fill_memory(*memory));
  model->make_layers();
  return model;
}

Model::Model(ModelConfig config, Tokenizer tokenizer, TokenMap token_map, EngramLayout engram,
             Checkpoint checkpoint, TensorTable tensors, Ops& ops)
    : config_(std::move(config)),
      tokenizer_(std::move(tokenizer)),
      token_map_(std::move(token_map)),
      engram_(std::move(engram)),
      checkpoint_(std::move(checkpoint)),
      tensors_(std::move(tensors)),
      ops_(ops) {}

Status Model::fill_memory(const MemoryOptions& options) {
  FATHOM_ASSIGN(tiers_, MemoryTiers::open(config_, checkpoint_, tensors_, options));
  return tiers_->fill(tensors_);
}

void Model::make_layers() {
  ExpertSources sources;
  ExpertCache* const experts = tiers_ ? &tiers_->experts() : nullptr;
  for (int64_t l = 0; experts != nullptr && l < experts->num_layers(); ++l)
    sources.push_back(experts->source(l));
  const auto num_cached = static_cast<int64_t>(sources.size());
  weights_ = bind_weights(config_, tensors_, std::move(sources));
  if (tensors_.vision_available()) vision_.emplace(config_, tensors_, ops_);
  for (int64_t l = 0; l < config_.n_layers; ++l) {
    const TensorRef& freqs = config_.ratio(l) > 0 ? compressed_freqs_ : window_freqs_;
    NextLayer next;
    if (experts != nullptr && l + 1 < config_.n_layers)
      next = {&weights_.layers[static_cast<size_t>(l + 1)], experts};
    layers_.emplace_back(config_, weights_.layers[static_cast<size_t>(l)], freqs, l, next);
  }
  if (weights_.draft)
    draft_ = std::make_unique<DraftModel>(config_, weights_, window_freqs_,
                                          num_cached > config_.n_layers ? experts : nullptr);
}

Status Model::prepare_rope() {
  const int64_t pairs = config_.rope_head_dim / 2;
  const int64_t table_bytes = (pairs * dtype_bytes(DType::f32) + 63) / 64 * 64;
  FATHOM_ASSIGN(rope_memory_, ops_.allocate(2 * table_bytes));
  window_freqs_ = {rope_memory_.data(), DType::f32, Shape{pairs}};
  compressed_freqs_ = {rope_memory_.data() + table_bytes, DType::f32, Shape{pairs}};
  RopeSetting setting{.dim = config_.rope_head_dim, .theta = config_.rope_theta};
  ops_.copy_in(window_freqs_, rope_frequencies(setting).data());
  setting = {.dim = config_.rope_head_dim,
             .theta = config_.compress_rope_theta,
             .original_seq_len = config_.original_seq_len,
             .factor = config_.rope_factor,
             .beta_fast = config_.beta_fast,
             .beta_slow = config_.beta_slow};
  ops_.copy_in(compressed_freqs_, rope_frequencies(setting).data());
  return {};
}

Status Model::check_rows(std::span<const SequenceRows> rows) const {
  std::unordered_set<const Sequence*> seen;
  for (const SequenceRows& r : rows) {
    FATHOM_CHECK(r.sequence != nullptr && seen.insert(r.sequence).second);
    FATHOM_CHECK(!r.ids.empty() && r.num_logits >= 0);
    FATHOM_CHECK_LE(r.num_logits, r.ids.size());
    for (int32_t id : r.ids)
      if (id < 0 || id >= config_.vocab_size)
        return fail(ErrorCode::invalid_argument, "token id {}: expected 0 to {}", id, config_.vocab_size - 1);
    FATHOM_TRY(check_images(r.images, r.ids, r.sequence->length(), config_.image_token_id));
  }
  for (const SequenceRows& r : rows) FATHOM_TRY(r.sequence->reserve(static_cast<int64_t>(r.ids.size())));
  return {};
}

Result<Logits> Model::forward(Workspace& workspace, std::span<const SequenceRows> rows, Trace* trace) const {
  FATHOM_CHECK(trace == nullptr || rows.size() == 1);
  FATHOM_TRY(check_rows(rows));
  Logits logits{config_.vocab_size, {}};

  // Cut the rows, in order, into chunks the workspace holds. Where they are cut changes no result.
  std::vector<SequenceRows> chunk;
  int64_t room = workspace.max_rows();
  const auto flush = [&]() -> Status {
    Status done = run_chunk(workspace, chunk, trace, logits);
    if (!done) {
      for (const SequenceRows& r : rows) r.sequence->poison();
      done = fail(with_file(std::move(done).error()));
    }
    chunk.clear();
    room = workspace.max_rows();
    return done;
  };
  for (const SequenceRows& r : rows) {
    for (size_t begin = 0; begin < r.ids.size();) {
      const size_t n = std::min(static_cast<size_t>(room), r.ids.size() - begin);
      const auto behind =
          static_cast<int64_t>(r.ids.size() - begin - n);  // rows of this sequence after the chunk
      const int64_t wanted = std::clamp<int64_t>(r.num_logits - behind, 0, static_cast<int64_t>(n));
      chunk.push_back({r.sequence, r.ids.subspan(begin, n), wanted, r.images});
      begin += n;
      room -= static_cast<int64_t>(n);
      if (room == 0) FATHOM_TRY(flush());
    }
  }
  if (!chunk.empty()) FATHOM_TRY(flush());
  return logits;
}

// Operations know a tensor by its name alone: says which file it is in.
Error Model::with_file(Error error) const {
  const std::string_view tensor = std::string_view(error.message).substr(0, error.message.find(": "));
  if (const std::string_view file = checkpoint_.file_of(tensor); !file.empty())
    error.message = fmt::format("{}: {}", file, error.message);
  return error;
}

Batch Model::make_batch(Workspace& workspace, std::span<const SequenceRows> chunk, Trace* trace) const {
  Batch batch;
  batch.trace = trace;
  std::vector<int32_t> ids;
  std::vector<int32_t> positions;
  for (const SequenceRows& r : chunk) {
    const auto n = static_cast<int64_t>(r.ids.size());
    const int64_t first = r.sequence->length();
    batch.sequences.push_back(r.sequence);
    batch.spans.push_back({batch.rows, n, first});
    ids.insert(ids.end(), r.ids.begin(), r.ids.end());
    for (int64_t i = 0; i < n; ++i) positions.push_back(static_cast<int32_t>(first + i));
    for (const ImageRows& image : image_rows(r.images, first, first + n))
      batch.images.push_back({batch.rows + image.first, image.rows});
    batch.rows += n;
  }
  ops_.copy_in(workspace.ids.head(batch.rows), ids.data());
  ops_.copy_in(workspace.positions.head(batch.rows), positions.data());
  mark_images(workspace, batch);
  hash_ngrams(batch, chunk);
  if (tiers_) read_ahead(batch, ids);
  return batch;
}

// All that the pass will need from disk and that is known before it begins.
void Model::read_ahead(Batch& batch, std::span<const int32_t> ids) const {
  if (tiers_->engram() != nullptr) {
    batch.engram_rows = tiers_->engram();
    batch.engram_rows->request(batch.engram_ids);
  }
  const auto row_bytes = static_cast<size_t>(weights_.embed.bytes() / weights_.embed.shape[0]);
  for (const int32_t id : ids)
    checkpoint_.will_need({weights_.embed.data + static_cast<size_t>(id) * row_bytes, row_bytes});
}

// Which rows are image positions, for the operations that treat them apart.
void Model::mark_images(Workspace& workspace, Batch& batch) const {
  if (batch.images.empty()) return;
  std::vector<uint8_t> marks(static_cast<size_t>(batch.rows), 0);
  for (const ImageRows& image : batch.images)
    std::fill_n(marks.begin() + image.first, image.rows.rows(), uint8_t{1});
  ops_.copy_in(workspace.image_rows.head(batch.rows), marks.data());
  batch.image_rows = workspace.image_rows.head(batch.rows);
}

// Table rows of every engram layer for the batch, from the sequences' compressed ids (spec 3, Hash).
void Model::hash_ngrams(Batch& batch, std::span<const SequenceRows> chunk) const {
  const int64_t columns = engram_.columns();
  const auto num_layers = static_cast<int64_t>(config_.engram_layer_ids.size());
  if (num_layers == 0) return;
  const int32_t pad = token_map_.map[static_cast<size_t>(config_.engram_pad_id)];
  batch.engram_ids.assign(static_cast<size_t>(num_layers),
                          std::vector<int64_t>(static_cast<size_t>(batch.rows * columns)));
  for (size_t s = 0; s < chunk.size(); ++s) {
    std::vector<int32_t>& history = chunk[s].sequence->engram_ids();
    const auto first = static_cast<size_t>(batch.spans[s].first_position);
    history.resize(first);  // drops what a failed pass or a rewind may have left
    for (int32_t id : chunk[s].ids) history.push_back(token_map_.map[static_cast<size_t>(id)]);
    for (const ImageRows& image :
         image_rows(chunk[s].images, batch.spans[s].first_position, batch.spans[s].end_position()))
      std::fill_n(history.begin() + batch.spans[s].first_position + image.first, image.rows.rows(),
                  engram_dead);
    for (int64_t l = 0; l < num_layers; ++l) {
      const std::span<int64_t> all = batch.engram_ids[static_cast<size_t>(l)];
      engram_rows(engram_, l, history, first, pad,
                  all.subspan(static_cast<size_t>(batch.spans[s].first_row * columns),
                              static_cast<size_t>(batch.spans[s].num_rows * columns)));
    }
  }
  if (batch.trace == nullptr) return;
  std::vector<int64_t> all;  // [rows, layers, columns]
  for (int64_t r = 0; r < batch.rows; ++r)
    for (const std::vector<int64_t>& ids : batch.engram_ids)
      all.insert(all.end(), ids.begin() + r * columns, ids.begin() + (r + 1) * columns);
  batch.trace->record("engram_ids",
                      {reinterpret_cast<const std::byte*>(all.data()),
                       DType::i64,
                       Shape{batch.rows, num_layers, columns},
                       {}},
                      Trace::Rows::append);
}

Status Model::run_chunk(Workspace& workspace, std::span<const SequenceRows> chunk, Trace* trace,
                        Logits& logits) const {
  std::unique_lock<std::mutex> engram_lock;
  if (tiers_) engram_lock = std::unique_lock(tiers_->engram_mutex());
  const Batch batch = make_batch(workspace, chunk, trace);
  ops_.embed({.ids = workspace.ids.head(batch.rows),
              .table = weights_.embed,
              .stream = workspace.stream.head(batch.rows),
              .pre = workspace.pre.head(batch.rows)});
  for (const ImageRows& image : batch.images)
    ops_.place_rows({.rows = image.rows, .stream = workspace.stream.slice(image.first, image.rows.rows())});
  for (const Layer& layer : layers_) FATHOM_TRY(layer.forward(ops_, batch, workspace));
  FATHOM_TRY(head(workspace, batch, chunk, logits));
  if (batch.drafting()) FATHOM_TRY(draft_->append(ops_, batch, workspace));
  for (size_t s = 0; s < chunk.size(); ++s) chunk[s].sequence->advance(batch.spans[s].num_rows);
  return {};
}

Result<std::shared_ptr<const ImageEmbedding>> Model::embed_image(const PreparedImage& image,
                                                                 const EmbedImageHooks& hooks) const {
  if (!vision_) return fail(ErrorCode::unsupported, "no images: {}", tensors_.vision_problem());
  return vision_->embed(image, hooks);
}

Status Model::head(Workspace& workspace, const Batch& batch, std::span<const SequenceRows> chunk,
                   Logits& logits) const {
  const int64_t vocab = config_.vocab_size;
  const int64_t total =
      std::accumulate(chunk.begin(), chunk.end(), int64_t{0},
                      [](int64_t sum, const SequenceRows& r) { return sum + r.num_logits; });
  if (total == 0) return {};
  FATHOM_ASSIGN(Buffer memory, ops_.allocate(total * vocab * dtype_bytes(DType::f32)));
  const TensorRef all{memory.data(), DType::f32, Shape{total, vocab}};
  int64_t done = 0;
  for (size_t s = 0; s < chunk.size(); ++s) {
    const int64_t n = chunk[s].num_logits;
    if (n == 0) continue;
    const int64_t first = batch.spans[s].first_row + batch.spans[s].num_rows - n;
    const TensorRef x = workspace.x.slice(first, n);
    ops_.collapse_norm({.stream = workspace.stream.slice(first, n),
                        .pre = workspace.pre.slice(first, n),
                        .weight = weights_.norm,
                        .norm_eps = config_.norm_eps,
                        .out = x});
    FATHOM_TRY(ops_.linear({.in = x, .weight = weights_.head, .out = all.slice(done, n)}));
    done += n;
  }
  const size_t before = logits.values.size();
  logits.values.resize(before + static_cast<size_t>(total * vocab));
  ops_.copy_out(logits.values.data() + before, all);
  const auto finite = [](float v) { return std::isfinite(v); };
  if (!std::all_of(logits.values.begin() + static_cast<int64_t>(before), logits.values.end(), finite))
    return fail(ErrorCode::format,
                "the logits are not finite: the checkpoint holds NaN or out-of-range weights");
  return {};
}

Result<DraftBlock> Model::begin_draft(Workspace& workspace, std::span<const DraftRequest> requests,
                                      int64_t depth) const {
  FATHOM_CHECK(can_draft());
  auto block = draft_->begin(ops_, workspace, requests, depth);
  if (!block) return fail(with_file(std::move(block).error()));
  return block;
}

Result<DraftStep> Model::next_draft(DraftBlock& block, std::span<const int32_t> previous) const {
  FATHOM_CHECK(can_draft());
  return draft_->next(ops_, block, previous);
}

}  // namespace fathom
