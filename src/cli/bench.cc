// fathom bench: what the machine can do, what the operations make of it, and how fast a model answers.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "base/memory_limit.h"
#include "base/threads.h"
#include "bench/limit_probe.h"
#include "bench/random_experts.h"
#include "bench/released_config.h"
#include "bench/report.h"
#include "cli/commands.h"
#include "cli/json_lines.h"
#include "cli/loaded_model.h"
#include "cli/progress_display.h"
#include "cli/signals.h"

namespace fathom {
namespace {

constexpr int64_t read_bytes = int64_t{1} << 30;        // to measure reading with
constexpr int64_t rotation_bytes = int64_t{512} << 20;  // copies of a weight together
constexpr int64_t min_experts = 24;

struct Flags {
  BackendFlags backend;
  std::filesystem::path model;
  std::filesystem::path shapes;
  std::filesystem::path disk;
  std::string rows_text = "1,4,16,64,256";
  std::vector<int64_t> rows;
  std::optional<std::string> filter;
  double seconds = 0.5;
  int64_t experts = 0;  // 0: as memory allows
  int64_t prompt_tokens = 512;
  bool no_operations = false;
  bool json = false;

  void check(const CLI::App& command) {
    auto list = parse_list<int64_t>(rows_text, 1, 4096, "numbers from 1 to 4096");
    if (!list) throw CLI::ValidationError("--rows", list.error().message);
    rows = std::move(*list);
    for (const char* flag : {"--filter", "--rows", "--shapes", "--experts"})
      if (no_operations && command.count(flag) > 0)
        throw CLI::ValidationError(flag, "expected without --no-operations, which leaves nothing to choose");
  }
};

class Bench {
 public:
  Bench(const Flags& flags, const Surroundings& surroundings)
      : flags_(flags),
        surroundings_(surroundings),
        effort_{.seconds = flags.seconds, .cancelled = interrupted} {}

  Status run() {
    FATHOM_TRY(prepare());
    Status status = measure_all();
    (void)show_count(surroundings_, "");
    // What was measured before an error is not lost.
    if (flags_.json) FATHOM_TRY(surroundings_.out.write(json_line(json_)));
    FATHOM_TRY(surroundings_.out.flush());
    return status;
  }

 private:
  // All that can be wrong with the flags, before the minutes that measuring takes.
  Status prepare() {
    FATHOM_ASSIGN(read_bytes_, measuring_bytes(read_bytes, min_reading_bytes, available_memory()));
    if (!flags_.disk.empty()) FATHOM_TRY(bench::find_disk_file(flags_.disk));
    if (!flags_.no_operations) FATHOM_TRY(prepare_operations());
    if (flags_.model.empty()) return {};
    // Not kept: nothing is to lie in memory while the machine is measured.
    const std::unique_ptr<Ops> ops = make_ops(flags_.backend);
    FATHOM_ASSIGN(const std::unique_ptr<Model> model, Model::load(flags_.model, *ops));
    return bench::check_prompt_tokens(model->config(), flags_.prompt_tokens);
  }

  Status prepare_operations() {
    config_ = bench::released_config();
    if (!flags_.shapes.empty()) {
      FATHOM_ASSIGN(config_, load_config(flags_.shapes));
    }
    specs_ = bench::operation_specs(config_);
    FATHOM_TRY(bench::choose_operations(specs_, flags_.filter.value_or(""), flags_.rows));
    const int64_t least = config_.n_activated_experts;
    if (flags_.experts == 0 || (flags_.experts >= least && flags_.experts <= config_.n_routed_experts))
      return {};
    return fail(ErrorCode::invalid_argument, "--experts: expected {} to {} for these shapes, found {}", least,
                config_.n_routed_experts, flags_.experts);
  }

  Status measure_all() {
    gate_.emplace(bench::real_clock(flags_.backend.threads), interrupted);
    json_["quiet"] = {{"baseline_seconds", gate_->baseline()}, {"tolerance", gate_->tolerance()}};
    FATHOM_TRY(limits());
    if (!flags_.disk.empty()) FATHOM_TRY(disk());
    if (!flags_.no_operations) FATHOM_TRY(operations());
    if (!flags_.model.empty()) FATHOM_TRY(model());
    return {};
  }

  Status limits() {
    FATHOM_ASSIGN(
        limits_,
        bench::measure_limits(
            *gate_, {.threads = flags_.backend.threads, .buffer_bytes = read_bytes_, .effort = effort_},
            [this](std::string_view what) { show(fmt::format("limits: {}", what)); }));
    json_["limits"] = bench::limits_json(limits_);
    return print(bench::limits_text(limits_));
  }

  Status disk() {
    show("disk");
    FATHOM_ASSIGN(const bench::DiskLimits disk, bench::measure_disk(*gate_, effort_, flags_.disk));
    json_["disk"] = bench::disk_json(disk);
    return print("\n" + bench::disk_text(disk));
  }

  Status operations() {
    const std::unique_ptr<Ops> ops = make_ops(flags_.backend);
    const bench::OperationsPlan plan{.setup = {.config = config_,
                                               .ops = *ops,
                                               .threads = flags_.backend.threads,
                                               .num_experts = num_experts(),
                                               .rotation_bytes = part_of_memory(rotation_bytes, 8)},
                                     .rows = flags_.rows,
                                     .filter = flags_.filter.value_or(""),
                                     .effort = effort_};
    json_["backend"] = ops->name();
    json_["experts"] = plan.setup.num_experts;
    json_["operations"] = Json::array();
    FATHOM_TRY(print("\n" + bench::operations_heading(ops->name(), limits_)));
    FATHOM_ASSIGN(bench::LimitProbe probe,
                  bench::LimitProbe::make(limits_, part_of_memory(std::numeric_limits<int64_t>::max(), 4)));
    return bench::measure_operations(
        *gate_, specs_, plan, [&](const bench::Work& work) { return probe.seconds_for(work); },
        [this](std::string_view what, int64_t number, int64_t total) {
          show(fmt::format("{} of {}: {}", number + 1, total, what));
        },
        [&](const bench::OperationResult& result) {
          json_["operations"].push_back(bench::operation_json(result, limits_));
          return print(bench::operation_line(result, limits_));
        });
  }

  // At most `wanted`, and one part in `parts` of what is left now, so that all that an operation needs fits.
  static int64_t part_of_memory(int64_t wanted, int64_t parts) {
    const MemoryLimit limit = available_memory();
    return limit.source.empty() ? wanted : std::min(wanted, limit.bytes / parts);
  }

  // All of the layer's if a third of the memory takes them; at least as many as no cache holds.
  int64_t num_experts() const {
    const int64_t fitting = available_memory().bytes / 3 / bench::RandomExperts::bytes_of_one(config_);
    const int64_t wanted = flags_.experts > 0 ? flags_.experts : std::max(fitting, min_experts);
    return std::clamp(wanted, config_.n_activated_experts, config_.n_routed_experts);
  }

  Status model() {
    show("opening the model");
    const std::unique_ptr<Ops> ops = make_ops(flags_.backend);
    FATHOM_ASSIGN(const std::unique_ptr<Model> model, Model::load(flags_.model, *ops));
    FATHOM_ASSIGN(const bench::ModelSpeed speed,
                  bench::measure_model(
                      *gate_, *model,
                      {.prompt_tokens = flags_.prompt_tokens, .chunk_rows = prefill_rows, .effort = effort_},
                      [this](std::string_view what) { show(fmt::format("model: {}", what)); }));
    json_["model"] = bench::model_json(speed, limits_);
    return print("\n" + bench::model_text(speed, limits_));
  }

  void show(const std::string& text) { (void)show_count(surroundings_, text); }

  // Tables come line by line, because the whole takes minutes.
  Status print(const std::string& text) {
    if (flags_.json) return {};
    FATHOM_TRY(show_count(surroundings_, ""));
    FATHOM_TRY(surroundings_.out.write(without_controls(text)));
    return surroundings_.out.flush();
  }

  const Flags& flags_;
  const Surroundings& surroundings_;
  int64_t read_bytes_ = 0;  // to measure reading with
  ModelConfig config_;      // of the operations
  std::vector<bench::OperationSpec> specs_;
  std::optional<bench::QuietGate> gate_;
  bench::Effort effort_;
  bench::MachineLimits limits_;
  Json json_ = Json::object();
};

Status run(const Flags& flags, const Surroundings& surroundings) { return Bench(flags, surroundings).run(); }

}  // namespace

void add_bench(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("bench", "Measure the machine, the operations and a model");
  command->footer(
      "Measures how fast the machine reads memory and multiplies, then the model's operations at the "
      "released shapes with random weights. A sample counts as clean when the machine was quiet right "
      "before and after it; figures are medians of clean samples. The limit of an operation is the "
      "longer one of reading its weights and keys once and of its products, at the best rates seen. Its "
      "share is held against reading, or products from second-level caches, measured right before and "
      "after every sample.");
  const auto flags = std::make_shared<Flags>();
  flags->backend.add_to(*command);
  command->add_option("--model", flags->model, "Also time prompt and answer of this model directory")
      ->type_name("DIR");
  command->add_option("--prompt-tokens", flags->prompt_tokens, "Tokens of the prompt for --model")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->capture_default_str();
  command->add_option("--rows", flags->rows_text, "Numbers of rows to time operations at")
      ->type_name("N,N,...")
      ->capture_default_str();
  command->add_option("--filter", flags->filter, "Only operations with TEXT in their name")
      ->type_name("TEXT");
  command->add_flag("--no-operations", flags->no_operations, "Leave the operations out");
  command
      ->add_option("--shapes", flags->shapes,
                   "Take the shapes of this model directory's config.json instead of the released ones")
      ->type_name("DIR");
  command
      ->add_option("--experts", flags->experts,
                   "Routed experts to have in memory, at most a layer's; default: those, if a third of the "
                   "memory takes "
                   "them")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
      ->type_name("N");
  command->add_option("--seconds", flags->seconds, "Time for each figure")
      ->check(number_check(1e-3, 3600))
      ->capture_default_str();
  command
      ->add_option("--disk", flags->disk,
                   "Also read this regular file, or the largest one in this directory, past the page cache")
      ->type_name("PATH");
  command->add_flag("--json", flags->json, "Write one JSON object");
  command->callback([flags, command, &chosen] {
    flags->check(*command);
    chosen = [flags](const Surroundings& surroundings) { return run(*flags, surroundings); };
  });
}

}  // namespace fathom
