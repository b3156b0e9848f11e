#include "cli/memory_report.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>

#include "base/cancel.h"
#include "base/size_text.h"
#include "base/threads.h"

namespace fathom {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Reads a block that no cache holds, over and over for a moment.
Result<double> measure_memory(const MeasureOptions& options, int64_t bytes) {
  constexpr int64_t slice = int64_t{64} << 20;
  constexpr double long_enough = 0.3;
  const int64_t block = bytes / slice * slice;
  FATHOM_ASSIGN(const HugeBuffer buffer, HugeBuffer::allocate(block));
  for (int64_t at = 0; at < block; at += slice) {
    FATHOM_TRY(check_cancelled(options.cancelled));
    std::memset(buffer.data() + at, 1, static_cast<size_t>(slice));
  }
  ThreadPool pool(options.threads);
  std::atomic<uint64_t> total{0};
  double best = 0;
  for (const auto begin = Clock::now(); seconds_since(begin) < long_enough;) {
    FATHOM_TRY(check_cancelled(options.cancelled));
    const auto start = Clock::now();
    pool.parallel_for(block / 64, int64_t{1} << 14, [&](int64_t first, int64_t last) {
      const auto* words = reinterpret_cast<const uint64_t*>(buffer.data());
      uint64_t sums[8] = {};
      for (int64_t line = first; line < last; ++line)
        for (int64_t i = 0; i < 8; ++i) sums[i] += words[line * 8 + i];
      uint64_t sum = 0;
      for (const uint64_t s : sums) sum += s;
      total += sum;
    });
    best = std::max(best, static_cast<double>(block) / seconds_since(start));
  }
  // What was read must count for something, or the compiler need not read it.
  return total == 0 ? 0 : best;
}

// Reads pieces from all over the shards, several at a time, for a moment.
constexpr uint64_t piece = uint64_t{4} << 20;
constexpr size_t at_once = 8;

Result<double> measure_disk(MemoryTiers& tiers, const MeasureOptions& options) {
  constexpr double long_enough = 1;
  struct Spot {
    const DirectFile* file;
    uint64_t offset;
    size_t bytes;
  };
  std::vector<Spot> spots;
  for (const auto& shard : tiers.shards()) {
    std::error_code ignored;
    const uint64_t size = std::filesystem::file_size(shard->path(), ignored);
    if (ignored) continue;
    for (uint64_t at = 0; at < size; at += piece)
      spots.push_back({shard.get(), at, static_cast<size_t>(std::min(piece, size - at))});
  }
  FATHOM_ASSIGN(const HugeBuffer memory, HugeBuffer::allocate(static_cast<int64_t>(at_once * piece)));
  std::deque<std::pair<AsyncReader::Ticket, size_t>> under_way;
  constexpr size_t stride = 7919;  // a prime: passes over the spots in no order a disk could guess
  uint64_t bytes = 0;
  Status status;
  const auto begin = Clock::now();
  for (size_t i = 0; (status && i < spots.size() && seconds_since(begin) < long_enough) || !under_way.empty();
       ++i) {
    if (status) status = check_cancelled(options.cancelled);
    if (status && i < spots.size() && seconds_since(begin) < long_enough) {
      const Spot& spot = spots[spots.size() % stride == 0 ? i : i * stride % spots.size()];
      const ReadRequest request{spot.file, spot.offset, spot.bytes, memory.data() + i % at_once * piece};
      under_way.emplace_back(tiers.reader().submit({&request, 1}, ReadUrgency::needed), spot.bytes);
      if (under_way.size() < at_once) continue;
    }
    const auto [ticket, size] = under_way.front();
    under_way.pop_front();
    if (Status read = tiers.reader().wait(ticket); !read) status = read;
    bytes += size;
  }
  FATHOM_TRY(status);
  return static_cast<double>(bytes) / seconds_since(begin);
}

std::string rate_text(double bytes) {
  if (bytes <= 0) return "not measured";
  return size_text(static_cast<int64_t>(bytes)) + "/s";
}

}  // namespace

MemoryBudget memory_budget(const std::optional<int64_t>& given, const std::filesystem::path& root) {
  if (given) {
    MemoryBudget budget{*given, "--memory", "--memory", ""};
    const MemoryLimit most = total_memory(root);
    if (!most.source.empty() && *given > most.total)
      budget.warning = fmt::format("--memory {} is more than there is: {} ({})", size_text(*given),
                                   size_text(most.total), most.source);
    return budget;
  }
  const MemoryLimit limit = available_memory(root);
  const int64_t headroom = memory_headroom(limit.bytes);
  const int64_t used = used_memory(root);
  if (limit.source.empty())
    return {used, "nothing", "nothing says how much memory there is; --memory can", ""};
  return {
      used + limit.bytes - headroom, limit.source,
      fmt::format("by {}: of {}, this process has {} and may have {} more, less {} for others", limit.source,
                  size_text(limit.total), size_text(used), size_text(limit.bytes), size_text(headroom)),
      ""};
}

Result<Bandwidths> measure_bandwidths(MemoryTiers& tiers, const Bandwidths& given,
                                      const MeasureOptions& options) {
  constexpr int64_t most = int64_t{256} << 20;
  constexpr auto disk_bytes = static_cast<int64_t>(at_once * piece);
  Bandwidths b = given;
  const auto give_up = [&b](const Error& error, std::string_view flag) {
    b.problem += fmt::format("{}{}; {} can say it", b.problem.empty() ? "" : "; ", error.message, flag);
  };
  if (b.memory <= 0) {
    const auto bytes = measuring_bytes(most, min_reading_bytes, options.left);
    if (!bytes) give_up(bytes.error(), "--memory-bandwidth");
    if (bytes) {
      FATHOM_ASSIGN(b.memory, measure_memory(options, *bytes));
    }
  }
  if (b.disk <= 0) {
    const auto bytes = measuring_bytes(disk_bytes, disk_bytes, options.left);
    if (!bytes) give_up(bytes.error(), "--disk-bandwidth");
    if (bytes) {
      FATHOM_ASSIGN(b.disk, measure_disk(tiers, options));
    }
  }
  return b;
}

double MemoryForecast::tokens_per_second(double disk_bytes) const {
  if (bandwidths.memory <= 0 || bandwidths.disk <= 0) return 0;
  const double seconds = std::max(memory_bytes_per_token / bandwidths.memory, disk_bytes / bandwidths.disk);
  return seconds > 0 ? 1 / seconds : 0;
}

Result<MemoryForecast> forecast_memory(const ModelConfig& config, const MemoryNeeds& needs,
                                       const MemoryBudget& budget, const Bandwidths& bandwidths) {
  MemoryForecast f;
  auto plan = plan_memory(needs, budget.bytes);
  if (!plan) return fail(plan.error().code, "{} ({})", plan.error().message, budget.origin);
  f.plan = *plan;
  f.budget_source = budget.source;
  f.bandwidths = bandwidths;
  const auto experts = static_cast<double>(config.n_layers * config.n_activated_experts * needs.slot);
  // A row's values and its scales are read as a block of the disk each.
  const auto rows =
      static_cast<double>(static_cast<int64_t>(config.engram_layer_ids.size()) * config.engram_columns() * 2 *
                          static_cast<int64_t>(DirectFile::alignment));
  f.memory_bytes_per_token = static_cast<double>(needs.dense - needs.draft_dense) + experts;
  f.disk_bytes_cold = experts + rows;
  f.disk_bytes_warm = (1 - f.plan.expert_share()) * experts + rows;
  return f;
}

std::string to_text(const MemoryForecast& f) {
  std::string out = fmt::format("\nWith {} of memory ({})\n", size_text(f.plan.budget), f.budget_source);
  const auto line = [&](std::string_view name, const std::string& value) {
    out += fmt::format("  {:<32}{}\n", name, value);
  };
  const MemoryNeeds& n = f.plan.needs;
  line("the process itself", size_text(n.process));
  line("dense weights", size_text(n.dense));
  line("activations", size_text(n.workspace));
  line(fmt::format("one sequence of {}", f.context), size_text(n.sequence));
  line("n-gram rows", size_text(f.plan.num_engram_rows * n.engram_row + f.plan.engram_staging));
  line("experts", fmt::format("{} of {} ({:.1f} %), {} each", f.plan.num_slots, n.num_experts,
                              100 * f.plan.expert_share(), size_text(n.slot)));
  line("smallest that works", fmt::format("{}M", n.told_budget() >> 20));
  line("memory bandwidth", rate_text(f.bandwidths.memory));
  line("disk bandwidth", rate_text(f.bandwidths.disk));
  line("from memory, a token", size_text(static_cast<int64_t>(f.memory_bytes_per_token)));
  const bool known = f.bandwidths.memory > 0 && f.bandwidths.disk > 0;
  const auto speed = [&](double disk_bytes) {
    if (!known) return size_text(static_cast<int64_t>(disk_bytes));
    return fmt::format("{}: at most {:.2f} tokens/s", size_text(static_cast<int64_t>(disk_bytes)),
                       f.tokens_per_second(disk_bytes));
  };
  line("from disk, nothing cached", speed(f.disk_bytes_cold));
  line("from disk, no expert preferred", speed(f.disk_bytes_warm));
  if (!f.bandwidths.problem.empty()) out += "\nNot measured: " + f.bandwidths.problem + "\n";
  return out;
}

Json to_json(const MemoryForecast& f) {
  const MemoryNeeds& n = f.plan.needs;
  const auto known = [](double value) { return value > 0 ? Json(value) : Json(); };
  return {{"budget_bytes", f.plan.budget},
          {"budget_source", f.budget_source},
          {"process_bytes", n.process},
          {"dense_bytes", n.dense},
          {"activation_bytes", n.workspace},
          {"context", f.context},
          {"sequence_bytes", n.sequence},
          {"engram_bytes", f.plan.num_engram_rows * n.engram_row + f.plan.engram_staging},
          {"expert_bytes", n.slot},
          {"experts_in_memory", f.plan.num_slots},
          {"experts", n.num_experts},
          {"planned_bytes", f.plan.bytes()},
          {"smallest_budget_bytes", n.told_budget()},
          {"memory_bandwidth", known(f.bandwidths.memory)},
          {"disk_bandwidth", known(f.bandwidths.disk)},
          {"not_measured", f.bandwidths.problem},
          {"memory_bytes_per_token", f.memory_bytes_per_token},
          {"disk_bytes_per_token", {{"nothing_cached", f.disk_bytes_cold}, {"uniform", f.disk_bytes_warm}}},
          {"tokens_per_second",
           {{"nothing_cached", known(f.tokens_per_second(f.disk_bytes_cold))},
            {"uniform", known(f.tokens_per_second(f.disk_bytes_warm))}}}};
}

Json memory_json(const MemoryTiers& tiers) {
  const MemoryCounters c = tiers.counters();
  const MemoryPlan& plan = tiers.plan();
  return {{"budget_bytes", plan.budget},
          {"planned_bytes", plan.bytes()},
          {"dense_bytes", plan.needs.dense},
          {"experts",
           {{"in_memory", plan.num_slots},
            {"of", plan.needs.num_experts},
            {"bytes_each", plan.needs.slot},
            {"hits", c.experts.hits},
            {"misses", c.experts.misses},
            {"prefetched", c.experts.prefetched},
            {"prefetched_used", c.experts.prefetched_used},
            {"forecast", c.experts.forecast},
            {"forecast_right", c.experts.forecast_right},
            {"bytes_read", c.experts.bytes_read},
            {"wait_seconds", c.experts.wait_seconds}}},
          {"engram_rows",
           {{"hits", c.engram.hits},
            {"misses", c.engram.misses},
            {"bytes_read", c.engram.bytes_read},
            {"wait_seconds", c.engram.wait_seconds}}}};
}

}  // namespace fathom
