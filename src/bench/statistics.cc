#include "bench/statistics.h"

#include <algorithm>

#include "base/check.h"

namespace fathom::bench {

double median(std::vector<double> values) {
  FATHOM_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double quantile(std::vector<double> values, double q) {
  FATHOM_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const auto i = static_cast<size_t>(q * static_cast<double>(values.size()));
  return values[std::min(i, values.size() - 1)];
}

Summary summarize(std::span<const Sample> samples) {
  if (samples.empty()) return {};
  std::vector<double> all;
  std::vector<double> clean;
  for (const Sample& sample : samples) {
    all.push_back(sample.seconds);
    if (sample.clean) clean.push_back(sample.seconds);
  }
  return {.median = median(clean.empty() ? all : clean),
          .best = *std::min_element(all.begin(), all.end()),
          .clean = static_cast<int>(clean.size()),
          .taken = static_cast<int>(all.size())};
}

Rate rate_of(const Summary& summary, double amount) {
  if (summary.taken == 0) return {};
  return {amount / summary.median, amount / summary.best, summary.clean, summary.taken};
}

}  // namespace fathom::bench
