// The bounds that logits of the exact path must keep (spec 1, Exactness).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/model.h"
#include "tests/support/tiny_model.h"

namespace fathom::testing {

inline void expect_exact_bounds(const Logits& got, const std::vector<float>& want) {
  ASSERT_EQ(got.values.size(), want.size());
  const auto vocab = static_cast<size_t>(got.vocab_size);
  std::vector<double> errors;
  for (size_t r = 0; r < want.size() / vocab; ++r) {
    double difference = 0;
    double norm = 0;
    for (size_t i = r * vocab; i < (r + 1) * vocab; ++i) {
      difference += std::pow(static_cast<double>(got.values[i]) - static_cast<double>(want[i]), 2);
      norm += std::pow(static_cast<double>(want[i]), 2);
    }
    errors.push_back(std::sqrt(difference / norm));
    EXPECT_EQ(argmax(got.row(static_cast<int64_t>(r))), argmax({want.data() + r * vocab, vocab}))
        << "position " << r;
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 1e-5);
  const auto within = std::count_if(errors.begin(), errors.end(), [](double e) { return e < 1e-2; });
  EXPECT_GE(static_cast<double>(within), 0.95 * static_cast<double>(errors.size()));
  ::testing::Test::RecordProperty("worst_relative_error", std::to_string(errors.back()));
}

}  // namespace fathom::testing
