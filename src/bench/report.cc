#include "bench/report.h"

#include <fmt/format.h>

namespace fathom::bench {
namespace {

std::string clean(int clean, int taken) { return fmt::format("{}/{}", clean, taken); }

std::string duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} s", seconds);
}

std::string rate_line(std::string_view what, const Rate& rate, double unit, std::string_view unit_name) {
  return fmt::format("  {:<44} {:>9.3f} {:<8} best {:>9.3f}   clean {}\n", what, rate.median / unit,
                     unit_name, rate.best / unit, clean(rate.clean, rate.taken));
}

std::string threads_text(int threads) {
  return threads == 1 ? std::string("1 thread") : fmt::format("{} threads", threads);
}

Json rate_json(const Rate& rate) {
  return {{"median", rate.median}, {"best", rate.best}, {"clean", rate.clean}, {"samples", rate.taken}};
}

}  // namespace

std::string limits_text(const MachineLimits& limits) {
  const std::string all = threads_text(limits.threads);
  std::string out = "Limits of this machine\n";
  out += rate_line("read from memory, 1 thread", limits.read_one, 1e9, "GB/s");
  out += rate_line("read from memory, " + all, limits.read_all, 1e9, "GB/s");
  for (const MatrixPeak& peak : limits.peaks) {
    out += rate_line(peak.name + " products, 1 thread", peak.one_thread, 1e12, "TFLOP/s");
    out += rate_line(peak.name + " products, " + all, peak.registers, 1e12, "TFLOP/s");
    out += rate_line(peak.name + " products, " + all + ", from L2", peak.streamed, 1e12, "TFLOP/s");
  }
  return out;
}

std::string disk_text(const DiskLimits& disk) {
  return fmt::format("Disk under {}\n", disk.file.string()) +
         rate_line("sequential, direct", disk.sequential, 1e9, "GB/s") +
         rate_line("random reads of 4 KiB, direct", disk.random, 1e3, "K/s");
}

std::string operations_heading(std::string_view backend, const MachineLimits& limits) {
  return fmt::format(
      "Operations ({}, {}); limit: {:.1f} GB/s or {:.2f} TFLOP/s\n"
      "{:<17} {:<23} {:>5} {:>10} {:>8} {:>8} {:>10} {:>5} {:>5}\n",
      backend, threads_text(limits.threads), limits.bandwidth() / 1e9, limits.peak() / 1e12, "operation",
      "shape", "rows", "time", "GB/s", "TFLOP/s", "limit", "share", "clean");
}

std::string operation_line(const OperationResult& result, const MachineLimits& limits) {
  const Work& work = result.work;
  const double seconds = result.time.median;
  std::string limit = "cached";
  std::string share = "-";
  if (!work.cached) {
    limit = duration(limit_seconds(work, limits));
    share = fmt::format("{:.0f}%", 100 * result.share);
  }
  return fmt::format("{:<17} {:<23} {:>5} {:>10} {:>8.2f} {:>8.3f} {:>10} {:>5} {:>5}\n", result.name,
                     result.shape, result.rows, duration(seconds), work.bytes / seconds / 1e9,
                     work.flop / seconds / 1e12, limit, share, clean(result.time.clean, result.time.taken));
}

std::string model_text(const ModelSpeed& speed, const MachineLimits& limits) {
  const double limit = limits.bandwidth() / speed.decode_bytes;
  return "Model\n" +
         rate_line(fmt::format("prefill of {} tokens", speed.prompt_tokens), speed.prefill, 1, "tokens/s") +
         rate_line(fmt::format("decode after {} tokens", speed.prompt_tokens), speed.decode, 1, "tokens/s") +
         fmt::format(
             "  a step of decode reads {:.1f} MB: at most {:.1f} tokens/s from memory, {:.0f}% reached\n",
             speed.decode_bytes / 1e6, limit, 100 * speed.decode.median / limit);
}

Json limits_json(const MachineLimits& limits) {
  Json peaks = Json::array();
  for (const MatrixPeak& peak : limits.peaks)
    peaks.push_back({{"name", peak.name},
                     {"one_thread", rate_json(peak.one_thread)},
                     {"registers", rate_json(peak.registers)},
                     {"streamed", rate_json(peak.streamed)}});
  return {{"threads", limits.threads},
          {"read_one_thread", rate_json(limits.read_one)},
          {"read", rate_json(limits.read_all)},
          {"peaks", std::move(peaks)}};
}

Json disk_json(const DiskLimits& disk) {
  return {{"file", disk.file.string()},
          {"sequential", rate_json(disk.sequential)},
          {"random_4k", rate_json(disk.random)}};
}

Json operation_json(const OperationResult& result, const MachineLimits& limits) {
  const Work& work = result.work;
  const double seconds = result.time.median;
  Json out = {{"name", result.name},
              {"shape", result.shape},
              {"rows", result.rows},
              {"seconds", seconds},
              {"best_seconds", result.time.best},
              {"clean", result.time.clean},
              {"samples", result.time.taken},
              {"bytes", work.bytes},
              {"flop", work.flop},
              {"bytes_per_second", work.bytes / seconds},
              {"flop_per_second", work.flop / seconds}};
  if (work.cached) {
    out["cached"] = true;
  } else {
    out["bound"] = bound_by_reading(work, limits) ? "memory" : "arithmetic";
    out["limit_seconds"] = limit_seconds(work, limits);
    out["share_of_limit"] = result.share;
  }
  return out;
}

Json model_json(const ModelSpeed& speed, const MachineLimits& limits) {
  return {{"prompt_tokens", speed.prompt_tokens},
          {"prefill_tokens_per_second", rate_json(speed.prefill)},
          {"decode_tokens_per_second", rate_json(speed.decode)},
          {"decode_bytes", speed.decode_bytes},
          {"decode_limit_tokens_per_second", limits.bandwidth() / speed.decode_bytes}};
}

}  // namespace fathom::bench
