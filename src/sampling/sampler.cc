#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace fathom {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

Result<Sampler> Sampler::make(SamplingParams params, int64_t vocab_size, std::span<const int32_t> prompt,
                              uint32_t stream) {
  FATHOM_CHECK_LE(1, vocab_size);
  FATHOM_CHECK_LE(vocab_size, std::numeric_limits<int32_t>::max());
  FATHOM_TRY(params.validate(vocab_size));
  Sampler sampler(std::move(params), vocab_size, stream);
  for (const int32_t id : prompt) {
    if (id < 0 || id >= vocab_size)
      return fail(ErrorCode::invalid_argument, "prompt: expected token ids from 0 to {}, found {}",
                  vocab_size - 1, id);
    if (sampler.params_.uses_counts()) sampler.counts_[id].in_prompt = true;
  }
  return sampler;
}

void Sampler::accept(int32_t id) {
  FATHOM_CHECK(id >= 0 && id < vocab_size_);
  if (params_.uses_counts()) ++counts_[id].in_output;
  ++num_accepted_;
}

// Steps 1 to 3; gives the largest adjusted logit. No step can make a NaN: factors are finite and not zero,
// terms are finite.
Result<double> Sampler::adjust(std::span<const float> logits, std::vector<double>& out) const {
  FATHOM_CHECK_EQ(logits.size(), vocab_size_);
  out.assign(logits.begin(), logits.end());
  for (size_t i = 0; i < out.size(); ++i)
    if (std::isnan(out[i])) return fail(ErrorCode::format, "logits: token {} is not a number", i);

  for (const auto& [id, bias] : params_.logit_bias) out[static_cast<size_t>(id)] += double{bias};
  for (const auto& [id, counts] : counts_) {
    double& logit = out[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / params_.repetition_penalty : logit * params_.repetition_penalty;
    if (counts.in_output > 0)
      logit -= params_.frequency_penalty * static_cast<double>(counts.in_output) + params_.presence_penalty;
  }

  const double largest = *std::max_element(out.begin(), out.end());
  if (largest == -infinity) return fail(ErrorCode::format, "logits: no token is above minus infinity");
  if (largest == infinity)
    for (double& logit : out) logit = logit == infinity ? infinity : -infinity;
  return largest;
}

Status Sampler::distribution(std::span<const float> logits, SamplerScratch& scratch) const {
  scratch.candidates_.clear();
  FATHOM_ASSIGN(const double largest, adjust(logits, scratch.logits_));
  if (params_.greedy()) {
    const auto best = std::find(scratch.logits_.begin(), scratch.logits_.end(), largest);
    scratch.candidates_.push_back({static_cast<int32_t>(best - scratch.logits_.begin()), 1.0});
    return {};
  }
  const size_t count = filter(largest, scratch);
  for (size_t i = 0; i < count; ++i)
    if (scratch.weights_[i] > 0) scratch.candidates_.push_back({scratch.order_[i], scratch.weights_[i]});
  // Ascending ids, and sums in that order, make the result independent of how far a filter had to sort.
  std::sort(scratch.candidates_.begin(), scratch.candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  double total = 0;
  for (const Candidate& c : scratch.candidates_) total += c.probability;
  for (Candidate& c : scratch.candidates_) c.probability /= total;
  // Dividing a denormal weight may give zero, which is no candidate.
  std::erase_if(scratch.candidates_, [](const Candidate& c) { return c.probability == 0; });
  return {};
}

// Steps 4 to 7. Each filter keeps a prefix of the ids ordered by logit, so together they keep the shortest
// of three prefixes: order_[0, result), with its weights. Only as much of the order is made as needed.
size_t Sampler::filter(double largest, SamplerScratch& scratch) const {
  const std::vector<double>& logits = scratch.logits_;
  std::vector<int32_t>& order = scratch.order_;
  std::vector<double>& weights = scratch.weights_;
  const auto weight = [&](int32_t id) {
    const double logit = logits[static_cast<size_t>(id)];
    // The difference is taken first: the largest gives 1 at any temperature, however small. Equal logits may
    // both be infinite.
    return logit == largest ? 1.0 : std::exp((logit - largest) / params_.temperature);
  };
  const auto before = [&](int32_t a, int32_t b) {
    const double x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  order.resize(logits.size());
  std::iota(order.begin(), order.end(), 0);

  size_t count = order.size();
  if (params_.top_k > 0 && std::cmp_less(params_.top_k, count)) {
    count = static_cast<size_t>(params_.top_k);
    std::nth_element(order.begin(), order.begin() + static_cast<ptrdiff_t>(count) - 1, order.end(), before);
    // Back to ascending ids, so that sums do not depend on how the library selects.
    std::sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(count));
  }
  weights.resize(count);
  if (params_.top_p < 1) {
    double mass = 0;
    for (size_t i = 0; i < count; ++i) mass += weight(order[i]);
    const double wanted = params_.top_p * mass;
    double sum = 0;
    size_t kept = 0, sorted = 0;
    while (kept < count && (kept == 0 || sum < wanted)) {
      if (kept == sorted) {  // extend the ordered part; few tokens usually hold the mass
        const size_t next = std::min(count, std::max<size_t>(256, sorted * 8));
        const auto begin = order.begin() + static_cast<ptrdiff_t>(sorted);
        const auto middle = order.begin() + static_cast<ptrdiff_t>(next);
        const auto end = order.begin() + static_cast<ptrdiff_t>(count);
        if (middle != end) std::nth_element(begin, middle - 1, end, before);
        std::sort(begin, middle, before);
        sorted = next;
      }
      sum += weight(order[kept++]);
    }
    count = kept;
  }
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    const double w = weight(order[i]);
    if (params_.min_p > 0 && w < params_.min_p) continue;
    order[kept] = order[i];
    weights[kept++] = w;
  }
  return kept;
}

Result<int32_t> Sampler::sample(std::span<const float> logits, SamplerScratch& scratch) const {
  FATHOM_TRY(distribution(logits, scratch));
  if (scratch.candidates_.size() == 1) return scratch.candidates_.front().id;
  return race(scratch.candidates_, random_, num_accepted_);
}

int32_t race(std::span<const Candidate> candidates, const RandomStream& random, uint64_t position) {
  FATHOM_CHECK(!candidates.empty());
  int32_t winner = candidates.front().id;
  double best = infinity;
  for (const Candidate& c : candidates) {
    const double u = random.uniform(position, static_cast<uint32_t>(c.id));
    const double arrival = -std::log1p(-u) / c.probability;
    if (arrival < best) {
      best = arrival;
      winner = c.id;
    }
  }
  return winner;
}

}  // namespace fathom
