// fathom inspect: what a model directory holds, what it needs, and what is wrong with it.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "base/cancel.h"
#include "base/size_text.h"
#include "base/threads.h"
#include "checkpoint/checkpoint.h"
#include "cli/commands.h"
#include "cli/json_lines.h"
#include "cli/loaded_model.h"
#include "cli/memory_report.h"
#include "cli/remark.h"
#include "cli/signals.h"
#include "model/config.h"
#include "model/engram_layout.h"
#include "model/manifest.h"
#include "model/sequence.h"
#include "model/tensor_table.h"
#include "model/tokenizer_match.h"
#include "model/workspace.h"
#include "text/tokenizer.h"

namespace fathom {
namespace {

constexpr std::array<int64_t, 5> context_lengths = {4096, 32768, 131072, 524288, 1048576};

constexpr double max_gigabytes = 1e9;  // of a bandwidth: more would not fit the report

struct GroupTotal {
  int64_t tensors = 0;
  int64_t bytes = 0;
};

struct Report {
  ModelConfig config;
  std::map<TensorGroup, GroupTotal> groups;
  bool has_weights = false;              // group bytes are those of the files, not of the manifest
  std::vector<std::string> problems;     // why the model cannot run
  std::vector<std::string> unavailable;  // what runs without
  bool drafting = false;                 // whether draft stages can run, as far as is known
  std::optional<MemoryForecast> memory;  // of a model that can run
  bool short_of_memory = false;          // the one problem is the budget, which is no fault of the model
};

struct Flags {
  std::filesystem::path directory;
  bool json = false;
  std::optional<int64_t> memory;
  bool mapped = false;
  int64_t context = 0;                              // 0: the model's
  double disk_gigabytes = 0, memory_gigabytes = 0;  // a second; 0: to be measured
};

std::string_view group_name(TensorGroup group) {
  switch (group) {
    case TensorGroup::embedding:
      return "embedding";
    case TensorGroup::attention:
      return "attention";
    case TensorGroup::compressor:
      return "compressor";
    case TensorGroup::indexer:
      return "indexer";
    case TensorGroup::experts:
      return "experts";
    case TensorGroup::shared_experts:
      return "shared experts";
    case TensorGroup::gate:
      return "gate";
    case TensorGroup::hyper_connections:
      return "hyper-connections";
    case TensorGroup::engram_table:
      return "engram tables";
    case TensorGroup::engram:
      return "engram";
    case TensorGroup::norm:
      return "norms";
    case TensorGroup::head:
      return "head";
    case TensorGroup::draft:
      return "draft stages";
    case TensorGroup::vision:
      return "vision";
  }
  return "?";
}

// What a run keeps of the tokenizer. Kept here too while memory is foreseen, because it is counted then.
struct TokenizerParts {
  std::optional<Tokenizer> tokenizer;
  std::optional<TokenMap> map;
};

TokenizerParts check_tokenizer(const std::filesystem::path& directory, Report& report) {
  TokenizerParts parts;
  auto tokenizer = Tokenizer::load(directory);
  if (!tokenizer) {
    report.problems.push_back(tokenizer.error().message);
    return parts;
  }
  parts.tokenizer = std::move(*tokenizer);
  auto map = match_tokenizer(report.config, *parts.tokenizer);
  if (map)
    parts.map = std::move(*map);
  else
    report.problems.push_back(map.error().message);
  return parts;
}

void check_weights(const std::filesystem::path& directory, const std::vector<ExpectedTensor>& manifest,
                   Report& report) {
  const auto checkpoint = Checkpoint::open(directory);
  if (checkpoint) {
    report.has_weights = true;
    const auto table = TensorTable::bind(*checkpoint, manifest);
    if (!table) report.problems.push_back(table.error().message);
    if (table) report.drafting = table->draft_available();
    if (table && !table->draft_available())
      report.unavailable.push_back("draft stages: " + table->draft_problem());
    if (table && !table->vision_available())
      report.unavailable.push_back("vision: " + table->vision_problem());
  } else {
    report.problems.push_back(checkpoint.error().message);
  }
  for (const ExpectedTensor& expected : manifest) {
    const TensorView* stored = checkpoint ? checkpoint->find(expected.name) : nullptr;
    if (checkpoint && !stored) continue;
    GroupTotal& total = report.groups[expected.group];
    ++total.tensors;
    total.bytes += stored ? stored->bytes() : released_bytes(expected);
  }
}

// What a run would do with its memory. A budget too small is one of the model's problems here.
Status foresee_memory(const Flags& flags, const Surroundings& surroundings, Report& report) {
  ModelConfig config = report.config;
  if (flags.context > 0) config.max_seq_len = std::min(config.max_seq_len, flags.context);
  // Not used here, but a run has it, and the process is measured with it.
  FATHOM_ASSIGN(const EngramLayout engram, make_engram_layout(config));
  FATHOM_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(flags.directory));
  FATHOM_ASSIGN(const TensorTable tensors, TensorTable::bind(checkpoint, config));
  const MemoryBudget budget = memory_budget(flags.memory);
  if (!budget.warning.empty()) remark(surroundings, budget.warning);
  MemoryOptions options;
  options.budget = budget.bytes;
  options.max_rows = prefill_rows;
  options.threads = available_processors();  // as commands that compute do unless they are told not to
  options.drafting = true;
  FATHOM_ASSIGN(const auto tiers, MemoryTiers::open(config, checkpoint, tensors, options));
  const Bandwidths given{.memory = flags.memory_gigabytes * 1e9, .disk = flags.disk_gigabytes * 1e9};
  FATHOM_ASSIGN(const Bandwidths bandwidths,
                measure_bandwidths(*tiers, given,
                                   {available_processors(), available_memory(), /*cancelled=*/interrupted}));
  auto forecast = forecast_memory(config, tiers->needs(), budget, bandwidths);
  report.short_of_memory = !forecast;
  if (!forecast) {
    report.problems.push_back(forecast.error().message);
    return {};
  }
  forecast->context = config.max_seq_len;
  report.memory = std::move(*forecast);
  return {};
}

Result<Report> examine(const Flags& flags, const Surroundings& surroundings) {
  const std::filesystem::path& directory = flags.directory;
  Report report;
  FATHOM_ASSIGN(report.config, load_config(directory));
  remark_on_context(surroundings, flags.context, report.config);
  report.drafting = report.config.n_mtp_layers > 0;
  const TokenizerParts tokenizer = check_tokenizer(directory, report);
  FATHOM_TRY(check_cancelled(interrupted));
  check_weights(directory, make_manifest(report.config), report);
  FATHOM_TRY(check_cancelled(interrupted));
  // Mapped weights have no plan to foresee: the kernel decides what stays in memory.
  if (report.has_weights && report.problems.empty() && !flags.mapped)
    FATHOM_TRY(foresee_memory(flags, surroundings, report));
  return report;
}

std::vector<int64_t> lengths_of(const ModelConfig& config) {
  std::vector<int64_t> lengths;
  for (const int64_t length : context_lengths)
    if (length < config.max_seq_len) lengths.push_back(length);
  lengths.push_back(config.max_seq_len);
  return lengths;
}

int64_t total_bytes(const Report& report) {
  int64_t total = 0;
  for (const auto& [group, part] : report.groups) total += part.bytes;
  return total;
}

// Name and value of what tells models apart; the file itself has the rest.
std::vector<std::pair<std::string, int64_t>> main_numbers(const ModelConfig& c) {
  return {{"n_layers", c.n_layers},
          {"n_mtp_layers", c.n_mtp_layers},
          {"dim", c.dim},
          {"vocab_size", c.vocab_size},
          {"n_heads", c.n_heads},
          {"head_dim", c.head_dim},
          {"window_size", c.window_size},
          {"index_topk", c.index_topk},
          {"n_routed_experts", c.n_routed_experts},
          {"n_activated_experts", c.n_activated_experts},
          {"moe_inter_dim", c.moe_inter_dim},
          {"hc_mult", c.hc_mult},
          {"max_seq_len", c.max_seq_len}};
}

Json to_json(const Report& report) {
  Json out;
  const ModelConfig& c = report.config;
  for (const auto& [name, value] : main_numbers(c)) out["config"][name] = value;
  out["config"]["compress_ratios"] = c.compress_ratios;
  out["config"]["kv_source_layers"] = c.kv_source_layers;
  out["config"]["index_source_layers"] = c.index_source_layers;
  out["config"]["engram_layer_ids"] = c.engram_layer_ids;
  out["config"]["vision"] = c.vision.has_value();
  Json groups = Json::object();
  for (const auto& [group, total] : report.groups)
    groups[std::string(group_name(group))] = {{"tensors", total.tensors}, {"bytes", total.bytes}};
  out["tensors"] = {{"found", report.has_weights}, {"bytes", total_bytes(report)}, {"groups", groups}};
  Json contexts = Json::array();
  for (const int64_t length : lengths_of(c))
    contexts.push_back({{"context", length}, {"bytes", Sequence::bytes_for(c, length, report.drafting)}});
  out["memory"] = {{"weights_bytes_mapped", total_bytes(report)},
                   {"workspace_bytes", Workspace::bytes_for(c, prefill_rows)},
                   {"sequence", contexts}};
  if (report.memory) out["memory"]["with_budget"] = to_json(*report.memory);
  out["problems"] = report.problems;
  out["unavailable"] = report.unavailable;
  return out;
}

std::string to_text(const Report& report) {
  const ModelConfig& c = report.config;
  std::string out = "Configuration\n";
  const auto line = [&](std::string_view name, const std::string& value) {
    out += fmt::format("  {:<24}{}\n", name, value);
  };
  for (const auto& [name, value] : main_numbers(c)) line(name, fmt::format("{}", value));
  line("compress_ratios", fmt::format("{}", fmt::join(c.compress_ratios, " ")));
  line("kv_source_layers", fmt::format("{}", fmt::join(c.kv_source_layers, " ")));
  line("index_source_layers", fmt::format("{}", fmt::join(c.index_source_layers, " ")));
  line("engram_layer_ids", fmt::format("{}", fmt::join(c.engram_layer_ids, " ")));
  line("vision", c.vision ? "yes" : "no");

  out += report.has_weights ? "\nTensors\n" : "\nTensors that the configuration calls for (none are here)\n";
  int64_t tensors = 0;
  for (const auto& [group, total] : report.groups) {
    out += fmt::format("  {:<20}{:>8}{:>14}\n", group_name(group), total.tensors, size_text(total.bytes));
    tensors += total.tensors;
  }
  out += fmt::format("  {:<20}{:>8}{:>14}\n", "sum", tensors, size_text(total_bytes(report)));

  out += "\nMemory for a run\n";
  line("weights, mapped", size_text(total_bytes(report)));
  line("activations", size_text(Workspace::bytes_for(c, prefill_rows)));
  for (const int64_t length : lengths_of(c))
    line(fmt::format("context of {}", length), size_text(Sequence::bytes_for(c, length, report.drafting)));
  if (report.memory) out += to_text(*report.memory);

  for (const std::string& reason : report.unavailable) out += "\nSwitched off: " + reason + "\n";
  for (const std::string& problem : report.problems) out += "\nWrong: " + problem + "\n";
  if (report.problems.empty())
    out += report.unavailable.empty() ? "\nNothing is missing or wrong.\n"
                                      : "\nText runs; nothing else is wrong.\n";
  return out;
}

Status run(const Flags& flags, const Surroundings& surroundings) {
  FATHOM_ASSIGN(const Report report, examine(flags, surroundings));
  FATHOM_TRY(check_cancelled(interrupted));
  FATHOM_TRY(surroundings.out.write(flags.json ? json_line(to_json(report)) : to_text(report)));
  if (report.problems.empty()) return {};
  if (report.short_of_memory)
    return fail(ErrorCode::invalid_argument, "{}: this model cannot run with so little memory",
                flags.directory.string());
  return fail(ErrorCode::format, "{}: this model cannot run: {} found", flags.directory.string(),
              report.problems.size() == 1 ? "a problem was"
                                          : fmt::format("{} problems were", report.problems.size()));
}

}  // namespace

void add_inspect(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("inspect", "Show what a model directory holds and needs");
  const auto flags = std::make_shared<Flags>();
  command->add_option("--model", flags->directory, "Model directory, as published")
      ->required()
      ->type_name("DIR");
  command->add_flag("--json", flags->json, "Write one JSON object");
  add_memory_flag(*command, flags->memory, flags->mapped);
  add_context_flag(*command, flags->context);
  const auto bandwidth = [&](const char* name, double& value, const char* help) {
    command->add_option(name, value, help)->check(number_check(0, max_gigabytes))->type_name("GB/S");
  };
  bandwidth("--disk-bandwidth", flags->disk_gigabytes, "Bandwidth to reckon with; default: it is measured");
  bandwidth("--memory-bandwidth", flags->memory_gigabytes,
            "Bandwidth to reckon with; default: it is measured");
  command->callback([flags, &chosen] {
    chosen = [flags](const Surroundings& surroundings) { return run(*flags, surroundings); };
  });
}

}  // namespace fathom
