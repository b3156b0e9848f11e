// The operations at a tiny model's shapes: that they run, and what they are said to read and to compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "backend/cpu/cpu_ops.h"
#include "base/memory_limit.h"
#include "bench/measure_operations.h"
#include "bench/released_config.h"
#include "bench/report.h"
#include "bench/weight_store.h"

namespace fathom::bench {
namespace {

ModelConfig tiny_config() {
  const auto config = load_config(FATHOM_SOURCE_DIR "/tests/golden/tiny/model");
  EXPECT_TRUE(config) << config.error().message;
  return *config;
}

// A world in which nothing takes time, so that every sample is clean and nothing waits.
GateClock still_clock() {
  return {.now = [] { return 0.0; }, .sleep = [](double) {}, .probe = [] { return 1.0; }};
}

MachineLimits limits_of(double bandwidth, double peak) {
  MachineLimits limits;
  limits.threads = 2;
  limits.read_all.best = bandwidth;
  limits.peaks = {{"slow", {}, {.best = peak / 8}, {}}, {"fast", {}, {.best = peak}, {}}};
  return limits;
}

OperationsPlan plan_of(const ModelConfig& config, Ops& ops, std::string filter) {
  return {.setup = {.config = config,
                    .ops = ops,
                    .threads = 2,
                    .num_experts = config.n_routed_experts,
                    .rotation_bytes = 1},
          .rows = {1, 3},
          .filter = std::move(filter),
          .effort = {.seconds = 1e-3, .clean_samples = 1, .cancelled = {}}};
}

TEST(Operations, AllRunAtTinyShapes) {
  const ModelConfig config = tiny_config();
  const auto ops = make_exact_cpu_ops(2);
  const OperationsPlan plan = plan_of(config, *ops, "");
  std::vector<OperationSpec> specs = operation_specs(config);
  // A million keys are no tiny shape.
  std::erase_if(specs, [](const OperationSpec& s) { return s.name.starts_with("index_select."); });
  QuietGate gate(still_clock());
  std::map<std::string, std::vector<OperationResult>> results;
  int64_t steps = 0;
  int64_t probes = 0;
  const Status status = measure_operations(
      gate, specs, plan,
      [&](const Work& work) {
        EXPECT_FALSE(work.cached);
        ++probes;
        return 1e-3;
      },
      [&](std::string_view, int64_t number, int64_t total) {
        EXPECT_LT(number, total);
        ++steps;
      },
      [&](OperationResult result) {
        results[result.name].push_back(std::move(result));
        return Status{};
      });
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_GT(steps, 0);
  EXPECT_EQ(results.size(), specs.size());
  for (const auto& [name, list] : results)
    for (const OperationResult& result : list) {
      EXPECT_GT(result.time.median, 0) << name;
      EXPECT_EQ(result.time.clean, result.time.taken) << name;
      EXPECT_GT(result.work.bytes, 0) << name;
      if (result.work.cached) {
        EXPECT_EQ(result.share, 0) << name;
      } else if (result.time.taken % 2 == 1) {  // medians of reciprocals are reciprocal
        EXPECT_NEAR(result.share * result.time.median, 1e-3, 1e-12) << name;
      }
    }
  EXPECT_GT(probes, 0);
  // A layer means something for one row only.
  ASSERT_EQ(results["layer.window"].size(), 1u);
  EXPECT_EQ(results["layer.window"][0].rows, 1);
  EXPECT_EQ(results["wq_a"].size(), 2u);
}

TEST(Operations, AResultThatNobodyTakesEndsTheMeasurement) {
  const ModelConfig config = tiny_config();
  const auto ops = make_exact_cpu_ops(2);
  QuietGate gate(still_clock());
  int results = 0;
  const Status status = measure_operations(
      gate, operation_specs(config), plan_of(config, *ops, "wq_a"), [](const Work&) { return 1e-3; },
      [](std::string_view, int64_t, int64_t) {},
      [&](const OperationResult&) -> Status {
        ++results;
        return fail(ErrorCode::io, "a full disk");
      });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "a full disk");
  EXPECT_EQ(results, 1);  // of two numbers of rows
}

TEST(Operations, IndexSelectRunsAmongAllAndAmongCandidates) {
  const ModelConfig config = tiny_config();
  const auto ops = make_exact_cpu_ops(2);
  const OperationSetup setup{.config = config,
                             .ops = *ops,
                             .threads = 1,
                             .max_rows = 2,
                             .num_experts = config.n_routed_experts,
                             .rotation_bytes = 1};
  for (const OperationSpec& spec : operation_specs(config)) {
    if (spec.name != "index_select.64k" && spec.name != "index_select.user") continue;
    const auto operation = spec.make(setup);
    ASSERT_TRUE(operation) << operation.error().message;
    const Status status = (*operation)->run(2);
    EXPECT_TRUE(status) << status.error().message;
    EXPECT_GT((*operation)->work(2).flop, (*operation)->work(1).flop);
  }
}

// Weights would fit; what the operation works in would not, and whoever took it would be killed.
TEST(Operations, ManyRowsOfTheExpertLayerAreRefusedWhereLessIsLeft) {
  const MemoryLimit limit = available_memory();
  if (limit.source.empty()) GTEST_SKIP() << "nothing says how much memory is left";
  const ModelConfig config = tiny_config();
  const auto ops = make_exact_cpu_ops(1);
  const OperationSetup setup{.config = config,
                             .ops = *ops,
                             .threads = 1,
                             .max_rows = limit.bytes / config.dim / 8,  // inputs and outputs: a half
                             .num_experts = config.n_activated_experts,
                             .rotation_bytes = 1};
  for (const OperationSpec& spec : operation_specs(config)) {
    if (spec.name != "expert_layer") continue;
    const auto operation = spec.make(setup);
    ASSERT_FALSE(operation);
    EXPECT_EQ(operation.error().code, ErrorCode::out_of_memory);
    EXPECT_THAT(operation.error().message, testing::HasSubstr("are left (/"));
  }
}

// Expected values from the spec's shapes.
TEST(Operations, ReleasedShapesReadWhatTheSpecificationSays) {
  const ModelConfig config = released_config();
  const auto ops = make_exact_cpu_ops(1);
  const OperationSetup setup{
      .config = config, .ops = *ops, .threads = 1, .max_rows = 4, .num_experts = 6, .rotation_bytes = 1};
  const std::map<std::string, std::pair<double, double>> expected = {
      // 1280 x 5120 bytes and a scale for 1024 of them; 2 FLOP for each weight and row
      {"wq_a", {6553600 + 6400, 4 * 2 * 6553600.0}},
      {"wkv", {2621440 + 2560, 4 * 2 * 2621440.0}},
      {"route", {384 * 5120 * 2, 4 * 2 * 384 * 5120.0}},
      {"hyper_mix", {24 * 20480 * 4, 4 * 2 * 24 * 20480.0}}};
  size_t seen = 0;
  for (const OperationSpec& spec : operation_specs(config)) {
    const auto found = expected.find(spec.name);
    if (found == expected.end()) continue;
    ++seen;
    const auto operation = spec.make(setup);
    ASSERT_TRUE(operation) << operation.error().message;
    const Work work = (*operation)->work(4);
    EXPECT_EQ(work.bytes, found->second.first) << spec.name;
    EXPECT_EQ(work.flop, found->second.second) << spec.name;
    EXPECT_FALSE(work.cached) << spec.name;
  }
  EXPECT_EQ(seen, expected.size());
}

TEST(Limits, TheLongerOfReadingAndProductsCounts) {
  const MachineLimits limits = limits_of(100, 1000);
  EXPECT_EQ(limits.peak(), 1000);
  EXPECT_EQ(limit_seconds({.bytes = 200, .flop = 500}, limits), 2);
  EXPECT_TRUE(bound_by_reading({.bytes = 200, .flop = 500}, limits));
  EXPECT_EQ(limit_seconds({.bytes = 200, .flop = 5000}, limits), 5);
  EXPECT_FALSE(bound_by_reading({.bytes = 200, .flop = 5000}, limits));
  EXPECT_EQ(limit_seconds({.bytes = 200, .flop = 0, .cached = true}, limits), 0);
}

TEST(Copies, TogetherTakeWhatIsAskedFor) {
  EXPECT_EQ(copies_for(100, 1000), 10);
  EXPECT_EQ(copies_for(100, 1001), 11);
  EXPECT_EQ(copies_for(100, 1), 1);
  EXPECT_EQ(copies_for(100, 0), 1);
}

TEST(Report, LinesFitAHundredColumnsAndSayTheShare) {
  const MachineLimits limits = limits_of(63.5e9, 0.83e12);
  const OperationResult result{"index_select.user",
                               "fp8 8 x [1024, 4096]",
                               256,
                               {.bytes = 63.5e6, .flop = 1e6},
                               {.median = 2e-3, .best = 1e-3, .clean = 17, .taken = 99},
                               0.5};
  const std::string line = operation_line(result, limits);
  EXPECT_LE(line.size(), 101u) << line;
  EXPECT_LE(operations_heading("cpu-exact", limits).find('\n'), 100u);
  EXPECT_THAT(line, testing::HasSubstr("50%"));
  EXPECT_THAT(line, testing::HasSubstr("17/99"));
  const Json json = operation_json(result, limits);
  EXPECT_EQ(json["bound"], "memory");
  EXPECT_DOUBLE_EQ(json["share_of_limit"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(json["bytes_per_second"].get<double>(), 63.5e6 / 2e-3);
}

}  // namespace
}  // namespace fathom::bench
