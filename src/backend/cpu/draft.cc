// What drafting adds to the main model's operations (spec 4).
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/multiply.h"
#include "tensor/weight.h"

namespace fathom::cpu {

void draft_feature(const Context& context, const DraftFeatureParams& p) {
  const int64_t rows = p.stream.shape[0];
  const int64_t copies = p.stream.shape[1];
  const int64_t dim = p.stream.shape[2];
  const int64_t columns = p.out.shape[1];
  FATHOM_CHECK_EQ(p.out.shape[0], rows);
  FATHOM_CHECK_LE(p.first_column + dim, columns);
  const bf16* stream = elements<bf16>(p.stream);
  bf16* out = elements<bf16>(p.out);
  context.pool.parallel_for(rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t i = 0; i < dim; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < copies; ++c)
          sum += static_cast<double>(to_float(stream[(r * copies + c) * dim + i]));
        out[r * columns + p.first_column + i] = to_bf16(sum / static_cast<double>(copies));
      }
  });
}

void markov_step(const Context& context, const MarkovStepParams& p) {
  const int64_t requests = p.x.shape[0];
  const int64_t depth = p.x.shape[1];
  const int64_t dim = p.x.shape[2];
  const int64_t vocab = p.logits.shape[2];
  const int64_t rank = p.embed.shape[1];
  FATHOM_CHECK_LE(p.step + 1, depth);
  FATHOM_CHECK_EQ(p.logits.shape[1], depth);
  FATHOM_CHECK_EQ(p.head.out(), vocab);
  FATHOM_CHECK_EQ(p.proj.shape[1], dim + rank);
  const int32_t* previous = elements<int32_t>(p.previous);
  const bf16* x = elements<bf16>(p.x);
  float* logits = elements<float>(p.logits);
  float* confidence = elements<float>(p.confidence);
  std::vector<float> proj(static_cast<size_t>(dim + rank));
  load_floats(p.proj, 0, dim + rank, proj.data());

  // Each request's x, then the embedding of the token before; the head takes the latter alone.
  const int64_t width = dim + rank;
  float* input = context.scratch.floats(Scratch::input, requests * width);
  for (int64_t q = 0; q < requests; ++q) {
    FATHOM_CHECK(previous[q] >= 0 && previous[q] < p.embed.shape[0]);
    to_floats(x + (q * depth + p.step) * dim, dim, input + q * width);
    load_floats(p.embed, previous[q] * rank, rank, input + q * width + dim);
    confidence[q] = static_cast<float>(context.dot(input + q * width, proj.data(), width));
  }
  const Status done =
      multiply(context, input + dim, requests, width, p.head, 0, vocab, [&](int64_t q, int64_t o, double v) {
        logits[(q * depth + p.step) * vocab + o] += static_cast<float>(v);
      });
  FATHOM_CHECK(done.has_value());  // a plain weight has no scales
}

}  // namespace fathom::cpu
