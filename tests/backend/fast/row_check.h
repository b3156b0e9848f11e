// How an operation of the fast path is judged: against the exact one on the same inputs, and row by row.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/fast/fast_ops.h"
#include "tests/support/tensors.h"

namespace fathom::testing {

/// Computes rows [first, first + count) of a case on `ops`: their results side by side, as float.
using RowOperation = std::function<std::vector<float>(Ops& ops, int64_t first, int64_t count)>;

/// Elements of rows [first, first + count) of `width` each.
template <class T>
std::vector<T> rows_of(const std::vector<T>& all, int64_t first, int64_t count, int64_t width) {
  return {all.begin() + first * width, all.begin() + (first + count) * width};
}

inline std::vector<bf16> bf16_normals(std::mt19937& random, int64_t n, float scale = 1) {
  std::normal_distribution<float> normal;
  std::vector<bf16> out(static_cast<size_t>(n));
  for (bf16& v : out) v = to_bf16(normal(random) * scale);
  return out;
}

inline std::vector<float> normals(std::mt19937& random, int64_t n, float scale = 1) {
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(n));
  for (float& v : out) v = normal(random) * scale;
  return out;
}

inline std::vector<float> floats(const std::vector<bf16>& x) {
  std::vector<float> out;
  for (bf16 v : x) out.push_back(to_float(v));
  return out;
}

/// Relative L2 error over the finite expected values; infinite when a value is finite in one alone.
inline double relative_error(const std::vector<float>& actual, const std::vector<float>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < expected.size() && i < actual.size(); ++i) {
    if (std::isnan(expected[i]) != std::isnan(actual[i]) || std::isinf(expected[i]) != std::isinf(actual[i]))
      return INFINITY;
    if (!std::isfinite(expected[i])) continue;
    const double d = static_cast<double>(actual[i]) - static_cast<double>(expected[i]);
    error += d * d;
    norm += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  return error == 0 ? 0 : std::sqrt(error / norm);
}

inline std::vector<uint32_t> bits_of(const std::vector<float>& x) {
  std::vector<uint32_t> out;
  for (float v : x) out.push_back(std::bit_cast<uint32_t>(v));
  return out;
}

/// On every Isa: within `bound` of the exact path; and, bit for bit, the same for 1, 2 and 3 threads and for
/// each row alone.
inline void check_rows(int64_t rows, const RowOperation& operation, double bound = 4e-3) {
  const auto exact = make_exact_cpu_ops(1);
  const std::vector<float> expected = operation(*exact, 0, rows);
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(isa_name(isa)));
    const auto one = make_fast_cpu_ops(1, isa);
    const std::vector<float> whole = operation(*one, 0, rows);
    EXPECT_LE(relative_error(whole, expected), bound);
    EXPECT_TRUE(operation(*one, 0, 0).empty());
    for (int threads : {2, 3}) {
      const auto several = make_fast_cpu_ops(threads, isa);
      EXPECT_EQ(bits_of(operation(*several, 0, rows)), bits_of(whole)) << threads << " threads";
    }
    std::vector<float> singles;
    for (int64_t r = 0; r < rows; ++r)
      for (float v : operation(*one, r, 1)) singles.push_back(v);
    EXPECT_EQ(bits_of(singles), bits_of(whole)) << "row by row";
  }
}

}  // namespace fathom::testing
