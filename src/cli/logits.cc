// fathom logits: what the model computes for given tokens, as a safetensors file.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <numeric>

#include "base/cancel.h"
#include "checkpoint/safetensors_writer.h"
#include "cli/commands.h"
#include "cli/loaded_model.h"
#include "cli/signals.h"

namespace fathom {
namespace {

struct Flags {
  ModelFlags model;
  std::string ids_text;
  std::vector<int32_t> ids;
  std::vector<int64_t> chunks;
  std::filesystem::path out;
  int64_t greedy = 0;
  bool trace = false;

  void check() {
    auto list = parse_list<int32_t>(ids_text, 0, std::numeric_limits<int32_t>::max(), "token ids");
    if (!list) throw CLI::ValidationError("--ids", list.error().message);
    ids = std::move(*list);
    const int64_t sum = std::accumulate(chunks.begin(), chunks.end(), int64_t{0});
    if (std::cmp_greater(sum, ids.size()))
      throw CLI::ValidationError("--chunks", "expected sizes with a sum of at most " +
                                                 std::to_string(ids.size()) + " (the ids), found " +
                                                 std::to_string(sum));
  }
};

int32_t argmax(std::span<const float> logits) {  // the lower id on a tie
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

struct Computation {
  Logits logits;
  std::vector<int32_t> greedy;
  TraceRecorder trace;
};

Status compute(const Flags& flags, const LoadedModel& loaded, Computation& out) {
  const Model& model = *loaded.model;
  // The last greedy token is not fed back.
  const auto positions = static_cast<int64_t>(flags.ids.size()) + std::max<int64_t>(flags.greedy - 1, 0);
  if (positions > model.config().max_seq_len)
    return fail(ErrorCode::invalid_argument,
                "--ids and --greedy: {} positions, expected at most the context of {}", positions,
                model.config().max_seq_len);
  FATHOM_ASSIGN(Workspace workspace, model.new_workspace(prefill_rows));
  FATHOM_ASSIGN(Sequence sequence, model.new_sequence());
  out.logits.vocab_size = model.config().vocab_size;
  std::vector<int64_t> chunks = flags.chunks;
  chunks.push_back(static_cast<int64_t>(flags.ids.size()));  // the rest

  std::span<const int32_t> rest = flags.ids;
  for (const int64_t size : chunks) {
    auto chunk = rest.first(std::min(static_cast<size_t>(size), rest.size()));
    rest = rest.subspan(chunk.size());
    // Cut where the model would cut it, to look for an interrupt in between.
    while (!chunk.empty()) {
      FATHOM_TRY(check_cancelled(interrupted));
      const auto ids = chunk.first(std::min(static_cast<size_t>(prefill_rows), chunk.size()));
      chunk = chunk.subspan(ids.size());
      const SequenceRows rows{&sequence, ids, static_cast<int64_t>(ids.size())};
      FATHOM_ASSIGN(const Logits part,
                    model.forward(workspace, std::span(&rows, 1), flags.trace ? &out.trace : nullptr));
      out.logits.values.insert(out.logits.values.end(), part.values.begin(), part.values.end());
    }
  }

  int32_t next = argmax(out.logits.row(out.logits.rows() - 1));
  for (int64_t i = 0; i < flags.greedy; ++i) {
    out.greedy.push_back(next);
    if (i + 1 == flags.greedy) break;
    FATHOM_TRY(check_cancelled(interrupted));
    const SequenceRows row{&sequence, std::span(&next, 1), 1};
    FATHOM_ASSIGN(const Logits step, model.forward(workspace, std::span(&row, 1)));
    next = argmax(step.row(0));
  }
  // The last pass may have been long, and whoever interrupted it expects no file.
  FATHOM_TRY(check_cancelled(interrupted));
  return {};
}

template <class T>
TensorView view_of(const std::vector<T>& values, DType dtype, Shape shape, std::string_view name) {
  return {reinterpret_cast<const std::byte*>(values.data()), dtype, shape, name};
}

Status run(const Flags& flags, const Surroundings& surroundings) {
  FATHOM_TRY(check_writable(flags.out));
  FATHOM_ASSIGN(const LoadedModel loaded, load_model(flags.model, false, surroundings));
  Computation result;
  FATHOM_TRY(compute(flags, loaded, result));

  const auto positions = static_cast<int64_t>(flags.ids.size());
  std::vector<TensorView> tensors = {
      view_of(flags.ids, DType::i32, Shape{positions}, "input_ids"),
      view_of(result.logits.values, DType::f32, Shape{positions, result.logits.vocab_size}, "logits")};
  if (flags.greedy > 0) tensors.push_back(view_of(result.greedy, DType::i32, Shape{flags.greedy}, "greedy"));
  std::vector<std::string> names;
  names.reserve(result.trace.tensors().size());  // views refer to the names
  for (const auto& [name, tensor] : result.trace.tensors()) {
    names.push_back("trace." + name);
    tensors.push_back(tensor.view(names.back()));
  }
  return write_safetensors(flags.out, tensors);
}

}  // namespace

void add_logits(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("logits", "Write the logits of given tokens to a file");
  const auto flags = std::make_shared<Flags>();
  flags->model.add_to(*command);
  command->add_option("--ids", flags->ids_text, "Token ids, the whole sequence from its first position")
      ->required()
      ->type_name("ID,ID,...");
  command
      ->add_option(
          "--chunks", flags->chunks,
          "Sizes of the first chunks; the rest is one. Changes no result; of a trace only index_score, in "
          "columns that a row cannot see")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{std::numeric_limits<int32_t>::max()}))
      ->type_name("N,N,...");
  command
      ->add_option("--out", flags->out,
                   "Safetensors file for input_ids I32 [n], logits F32 [n, vocab] and what else is asked for")
      ->required()
      ->type_name("FILE");
  command->add_option("--greedy", flags->greedy, "Also continue with the N most probable tokens: greedy [N]")
      ->check(CLI::Range(int64_t{1}, int64_t{std::numeric_limits<int32_t>::max()}))
      ->type_name("N");
  command->add_flag(
      "--trace", flags->trace,
      "Also keep intermediate tensors: trace.L.out, trace.L.attn_out, trace.layers.L.ffn.experts, ...");
  command->callback([flags, &chosen] {
    flags->check();
    chosen = [flags](const Surroundings& surroundings) { return run(*flags, surroundings); };
  });
}

}  // namespace fathom
