#include "bench/model_speed.h"

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "base/cancel.h"
#include "bench/team.h"
#include "model/manifest.h"

namespace fathom::bench {
namespace {

double bytes_of_step(const ModelConfig& config) {
  double bytes = 0;
  for (const ExpectedTensor& tensor : make_manifest(config)) {
    const auto size = static_cast<double>(released_bytes(tensor));
    switch (tensor.group) {
      case TensorGroup::experts:
        bytes += size * static_cast<double>(config.n_activated_experts) /
                 static_cast<double>(config.n_routed_experts);
        break;
      case TensorGroup::embedding:
      case TensorGroup::engram_table:
      case TensorGroup::draft:
      case TensorGroup::vision:
        break;
      default:
        bytes += size;
    }
  }
  return bytes;
}

class ModelRun {
 public:
  ModelRun(const Model& model, Workspace workspace, std::function<bool()> cancelled)
      : model_(model), workspace_(std::move(workspace)), cancelled_(std::move(cancelled)) {}

  /// A new sequence takes `num_tokens` random tokens; seconds.
  Result<double> prefill(int64_t num_tokens) {
    FATHOM_ASSIGN(sequence_, model_.new_sequence());
    return add(num_tokens);
  }
  /// One more token, taken back again so that every step sees the same context; seconds.
  Result<double> decode() {
    FATHOM_ASSIGN(const double seconds, add(1));
    sequence_->rewind(1);
    return seconds;
  }

 private:
  Result<double> add(int64_t num_tokens) {
    std::vector<int32_t> ids(static_cast<size_t>(num_tokens));
    std::uniform_int_distribution<int32_t> any(0, static_cast<int32_t>(model_.config().vocab_size - 1));
    for (int32_t& id : ids) id = any(random_);
    const double begin = seconds_now();
    for (std::span<const int32_t> rest = ids; !rest.empty();) {
      FATHOM_TRY(check_cancelled(cancelled_));
      const auto chunk = rest.first(std::min(rest.size(), static_cast<size_t>(workspace_.max_rows())));
      rest = rest.subspan(chunk.size());
      const SequenceRows rows{&*sequence_, chunk, rest.empty() ? 1 : 0};
      FATHOM_TRY(model_.forward(workspace_, std::span(&rows, 1)));
    }
    return seconds_now() - begin;
  }

  const Model& model_;
  Workspace workspace_;
  std::function<bool()> cancelled_;
  std::optional<Sequence> sequence_;
  std::mt19937_64 random_{1};
};

}  // namespace

Status check_prompt_tokens(const ModelConfig& config, int64_t prompt_tokens) {
  if (prompt_tokens < config.max_seq_len) return {};
  return fail(ErrorCode::invalid_argument,
              "--prompt-tokens: expected fewer than the model's context of {}, found {}", config.max_seq_len,
              prompt_tokens);
}

Result<ModelSpeed> measure_model(QuietGate& gate, const Model& model, const ModelSpeedOptions& options,
                                 const std::function<void(std::string_view)>& step) {
  FATHOM_TRY(check_prompt_tokens(model.config(), options.prompt_tokens));
  ModelSpeed out;
  out.prompt_tokens = options.prompt_tokens;
  out.decode_bytes = bytes_of_step(model.config());
  FATHOM_ASSIGN(Workspace workspace, model.new_workspace(options.chunk_rows));
  ModelRun run(model, std::move(workspace), options.effort.cancelled);
  step("prefill");
  FATHOM_TRY(run.prefill(1));  // takes working memory
  FATHOM_ASSIGN(const Summary prefill,
                measure(gate, options.effort, [&] { return run.prefill(options.prompt_tokens); }));
  out.prefill = rate_of(prefill, static_cast<double>(options.prompt_tokens));

  step("decode");
  FATHOM_TRY(run.prefill(options.prompt_tokens));
  FATHOM_ASSIGN(const Summary decode, measure(gate, options.effort, [&] { return run.decode(); }));
  out.decode = rate_of(decode, 1);
  return out;
}

}  // namespace fathom::bench
