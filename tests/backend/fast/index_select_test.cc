// The choice of compressed positions against the exact path's, for every Isa and some thread counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "backend/cpu/cpu_ops.h"
#include "backend/fast/fast_ops.h"
#include "backend/fast/linear_kernels.h"
#include "backend/fast/operations.h"
#include "tensor/cache_layout.h"
#include "tests/support/tensors.h"

namespace fathom {
namespace {

using testing::bf16_tensor;
using testing::HostTensor;

struct Case {
  int64_t heads = 2, dim = 64;
  std::vector<RowSpan> spans;
  int64_t ratio = 1, topk = 16;
  CandidateRole role = CandidateRole::none;
  int64_t blocks = 4, block_size = 8;  // candidates
  // Small integers make f32 sums exact and ties frequent; else choices may differ within the noise.
  bool integers = true;
  bool equal_keys = false;
  bool wide = false;  // scales of a key's and a head's blocks far apart
  bool off_grid = false;
};

struct Sequence {
  std::vector<std::byte> memory;
  std::vector<std::byte*> blocks;
  static constexpr int64_t block_records = 48;
};

struct Inputs {
  HostTensor<bf16> queries{{0}};
  HostTensor<bf16> weights{{0}};
  std::vector<Sequence> sequences;
  std::vector<RecordsView> keys;
  HostTensor<int32_t> candidates{{0}};
  HostTensor<int32_t> num_candidates{{0}};
  int64_t rows = 0;
};

struct Choice {
  std::vector<std::vector<int32_t>> picked, candidates;  // by row
  bool operator==(const Choice&) const = default;
};

float draw(std::mt19937& random, bool integers) {
  if (!integers) return round_bf16(std::normal_distribution<float>()(random));
  constexpr float values[] = {0, 1, 2, 3, 4, -1, -2, -4};
  return values[random() % 8];
}

// `n` values, on the index grid unless they are to be off it.
std::vector<float> grid_values(std::mt19937& random, const Case& c, int64_t n, bool on_grid) {
  std::vector<float> x(static_cast<size_t>(n));
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = draw(random, c.integers);
    if (c.wide && i / 32 % 2 == 1 && random() % 4 != 0) x[i] *= 0x1p-7f;
  }
  if (on_grid) round_to_index_fp4_grid(x.data(), n);
  return x;
}

Sequence make_keys(std::mt19937& random, const Case& c, int64_t count) {
  const int64_t bytes = index_record(c.dim).bytes();
  const int64_t num_blocks = count / Sequence::block_records + 1;
  Sequence s;
  s.memory.resize(static_cast<size_t>(num_blocks * Sequence::block_records * bytes));
  for (int64_t b = 0; b < num_blocks; ++b)
    s.blocks.push_back(s.memory.data() + b * Sequence::block_records * bytes);
  Case key_case = c;
  std::vector<float> key = grid_values(random, c, c.dim, true);
  for (int64_t j = 0; j < count; ++j) {
    key_case.wide = c.wide && random() % 3 == 0;
    if (!c.equal_keys && random() % 8 != 0) key = grid_values(random, key_case, c.dim, true);
    pack_index(key.data(), c.dim, s.memory.data() + j * bytes);
  }
  return s;
}

Inputs make_inputs(const Case& c, uint32_t seed) {
  std::mt19937 random(seed);
  Inputs in;
  for (const RowSpan& span : c.spans) {
    in.rows = std::max(in.rows, span.first_row + span.num_rows);
    in.sequences.push_back(make_keys(random, c, span.end_position() / c.ratio));
  }
  for (const Sequence& s : in.sequences) in.keys.push_back({s.blocks, Sequence::block_records});
  std::vector<float> weights;
  for (int64_t i = 0; i < in.rows * c.heads; ++i) weights.push_back(draw(random, c.integers));
  in.queries =
      bf16_tensor({in.rows, c.heads, c.dim}, grid_values(random, c, in.rows * c.heads * c.dim, !c.off_grid));
  in.weights = bf16_tensor({in.rows, c.heads}, weights);
  in.candidates = HostTensor<int32_t>({in.rows, c.blocks});
  in.num_candidates = HostTensor<int32_t>({in.rows});
  if (c.role != CandidateRole::user) return in;
  for (const RowSpan& span : c.spans) {
    for (int64_t r = span.first_row; r < span.first_row + span.num_rows;
         ++r) {  // some of all blocks there are
      const int64_t visible = (span.first_position + r - span.first_row + 1) / c.ratio;
      int64_t n = 0;
      for (int64_t b = 0; b * c.block_size < visible && n < c.blocks; ++b)
        if (random() % 3 != 0)
          in.candidates.values[static_cast<size_t>(r * c.blocks + n++)] = static_cast<int32_t>(b);
      in.num_candidates.values[static_cast<size_t>(r)] = static_cast<int32_t>(n);
    }
  }
  return in;
}

Status select(Ops& ops, const Case& c, const Inputs& in, Choice& out, HostTensor<float>* scores = nullptr) {
  HostTensor<int32_t> candidates = in.candidates;
  HostTensor<int32_t> num_candidates = in.num_candidates;
  HostTensor<int32_t> picked({in.rows, c.topk});
  HostTensor<int32_t> num_picked({in.rows});
  Status status = ops.index_select({.queries = in.queries.view(),
                                    .head_weights = in.weights.view(),
                                    .weight_scale = 0.125f,
                                    .spans = c.spans,
                                    .keys = in.keys,
                                    .ratio = c.ratio,
                                    .role = c.role,
                                    .candidate_block_size = c.block_size,
                                    .candidates = candidates.ref(),
                                    .num_candidates = num_candidates.ref(),
                                    .picked = picked.ref(),
                                    .num_picked = num_picked.ref(),
                                    .scores = scores == nullptr ? TensorRef{} : scores->ref()});
  const auto row = [](const HostTensor<int32_t>& t, int64_t r, int32_t n) {
    const auto at = t.values.begin() + r * t.shape[1];
    return std::vector<int32_t>(at, at + n);
  };
  for (int64_t r = 0; r < in.rows; ++r) {
    out.picked.push_back(row(picked, r, num_picked.values[static_cast<size_t>(r)]));
    out.candidates.push_back(row(candidates, r, num_candidates.values[static_cast<size_t>(r)]));
  }
  return status;
}

// Where the two differ, the scores are as good as equal.
void expect_within_noise(const std::vector<int32_t>& a, const std::vector<int32_t>& b, const float* scores,
                         const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  EXPECT_TRUE(std::is_sorted(a.begin(), a.end())) << what;
  std::vector<int32_t> only_a, only_b;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(only_a));
  std::set_difference(b.begin(), b.end(), a.begin(), a.end(), std::back_inserter(only_b));
  float largest = 0;
  for (int32_t j : b) largest = std::max(largest, std::fabs(scores[j]));
  for (int32_t i : only_a)
    for (int32_t j : only_b) EXPECT_NEAR(scores[i], scores[j], 1e-5f * largest) << what;
}

void check(const Case& c, uint32_t seed) {
  const Inputs in = make_inputs(c, seed);
  Choice expected;
  ASSERT_TRUE(select(*make_exact_cpu_ops(2), c, in, expected));
  int64_t columns = 1;
  for (const RowSpan& s : c.spans) columns = std::max(columns, s.end_position() / c.ratio);
  HostTensor<float> scores({in.rows, columns});
  Choice traced;
  ASSERT_TRUE(select(*make_exact_cpu_ops(2), c, in, traced, &scores));
  for (Isa isa : available_isas()) {
    Choice first;
    for (int threads : {1, 2, 3}) {
      const std::string what = std::string(isa_name(isa)) + ", seed " + std::to_string(seed) + ", threads " +
                               std::to_string(threads);
      Choice found;
      ASSERT_TRUE(select(*make_fast_cpu_ops(threads, isa), c, in, found));
      if (c.integers) {
        EXPECT_EQ(found, expected) << what;
      } else {
        for (size_t r = 0; r < found.picked.size(); ++r)
          expect_within_noise(found.picked[r], expected.picked[r],
                              scores.values.data() + static_cast<int64_t>(r) * columns, what);
      }
      if (threads == 1) first = found;
      EXPECT_EQ(found, first) << what;
    }
  }
}

TEST(FastIndexSelect, VisibleCountsAroundTopk) {
  uint32_t seed = 1;
  for (int64_t visible : {0, 1, 7, 8, 15, 16, 17, 127, 128, 129, 300})
    for (int64_t topk : {1, 16, 512}) check({.spans = {{0, 1, visible - 1}}, .topk = topk}, ++seed);
}

TEST(FastIndexSelect, ManyRowsSeveralTiles) {
  uint32_t seed = 100;
  check({.spans = {{0, 40, 0}}, .ratio = 2}, ++seed);
  check({.spans = {{0, 21, 500}}, .ratio = 2, .topk = 33}, ++seed);
  check({.heads = 32, .dim = 128, .spans = {{0, 9, 700}}, .topk = 64}, ++seed);
  check({.heads = 5, .dim = 32, .spans = {{0, 3, 1000}, {3, 1, 0}, {4, 6, 77}}, .topk = 20}, ++seed);
  check({.heads = 32, .dim = 256, .spans = {{0, 2, 300}}}, ++seed);
  check({.heads = 20, .dim = 96, .spans = {{0, 2, 300}}}, ++seed);
}

TEST(FastIndexSelect, NoRows) { check({.spans = {}}, 1); }

TEST(FastIndexSelect, TiesGoToTheLowerPosition) {
  check({.spans = {{0, 1, 4000}}, .topk = 512, .equal_keys = true}, 201);
  check({.spans = {{0, 17, 900}}, .topk = 30, .equal_keys = true}, 202);
  check({.spans = {{0, 1, 900}}, .topk = 30, .role = CandidateRole::source, .blocks = 20, .equal_keys = true},
        203);
}

TEST(FastIndexSelect, CandidateBlocks) {
  uint32_t seed = 300;
  for (CandidateRole role : {CandidateRole::source, CandidateRole::user})
    for (int64_t block_size : {1, 3, 8, 200})
      for (int64_t blocks : {1, 4, 40}) {
        Case c{.heads = 3, .spans = {{0, 1, 1500}}, .role = role, .blocks = blocks, .block_size = block_size};
        check(c, ++seed);
        c.spans = {{0, 15, 120}, {15, 2, 0}, {17, 1, 640}};
        check(c, ++seed);
        c.ratio = 2;
        check(c, ++seed);
      }
}

TEST(FastIndexSelect, WideScalesAndOffTheGrid) {
  uint32_t seed = 400;
  for (bool wide : {false, true})
    for (bool off_grid : {false, true})
      for (int64_t heads : {3, 32})
        check({.heads = heads,
               .dim = 128,
               .spans = {{0, 7, 900}, {7, 1, 300}},
               .topk = 100,
               .integers = false,
               .wide = wide,
               .off_grid = off_grid},
              ++seed);
}

TEST(FastIndexSelect, ARowAloneChoosesTheSame) {
  const Case c{.heads = 32,
               .dim = 128,
               .spans = {{0, 24, 600}},
               .topk = 40,
               .role = CandidateRole::source,
               .blocks = 9,
               .integers = false,
               .wide = true};
  const Inputs in = make_inputs(c, 500);
  for (Isa isa : available_isas()) {
    const auto ops = make_fast_cpu_ops(2, isa);
    Choice all;
    ASSERT_TRUE(select(*ops, c, in, all));
    for (int64_t r = 0; r < in.rows; ++r) {
      Case one = c;
      one.spans = {{0, 1, 600 + r}};
      Inputs row = in;
      row.rows = 1;
      const auto part = [&](const HostTensor<bf16>& t, int64_t n) {
        return std::vector<bf16>(t.values.begin() + r * n, t.values.begin() + (r + 1) * n);
      };
      row.queries = HostTensor<bf16>({1, c.heads, c.dim}, part(in.queries, c.heads * c.dim));
      row.weights = HostTensor<bf16>({1, c.heads}, part(in.weights, c.heads));
      row.candidates = HostTensor<int32_t>({1, c.blocks});
      row.num_candidates = HostTensor<int32_t>({1});
      Choice alone;
      ASSERT_TRUE(select(*ops, one, row, alone));
      EXPECT_EQ(alone.picked[0], all.picked[static_cast<size_t>(r)]) << isa_name(isa) << " row " << r;
      EXPECT_EQ(alone.candidates[0], all.candidates[static_cast<size_t>(r)]) << isa_name(isa) << " row " << r;
    }
  }
}

// The released shape at its longest context: what is remembered is the best, never a score for every key.
TEST(FastIndexSelect, WorkingMemoryOfAMillionPositions) {
  constexpr int64_t keys = int64_t{1} << 20;
  for (CandidateRole role : {CandidateRole::none, CandidateRole::source}) {
    for (int64_t rows : {1, 8}) {
      // Few keys, again and again: they are read through a list of blocks.
      const Case few{.heads = 32,
                     .dim = 128,
                     .spans = {{0, rows, 1000}},
                     .topk = 512,
                     .role = role,
                     .blocks = 2048,
                     .block_size = 8};
      Inputs in = make_inputs(few, 700);
      std::vector<std::byte*>& blocks = in.sequences[0].blocks;
      for (size_t i = 0; blocks.size() * Sequence::block_records < keys; ++i)
        blocks.push_back(blocks[i % 16]);
      in.keys = {{blocks, Sequence::block_records}};
      const RowSpan span{0, rows, rows == 1 ? keys - rows : keys / 8};
      HostTensor<int32_t> picked({rows, few.topk}), num_picked({rows});
      ThreadPool pool(2);
      fast::Scratch scratch;
      std::vector<fast::Scratch> worker(2);
      const fast::Context context{
          pool, best_isa(), fast::row_kernels(best_isa()), fast::linear_kernels(best_isa()), scratch, worker};
      ASSERT_TRUE(fast::index_select(context, {.queries = in.queries.view(),
                                               .head_weights = in.weights.view(),
                                               .weight_scale = 0.125f,
                                               .spans = std::span(&span, 1),
                                               .keys = in.keys,
                                               .ratio = 1,
                                               .role = role,
                                               .candidate_block_size = few.block_size,
                                               .candidates = in.candidates.ref(),
                                               .num_candidates = in.num_candidates.ref(),
                                               .picked = picked.ref(),
                                               .num_picked = num_picked.ref(),
                                               .scores = {}}));
      EXPECT_EQ(num_picked.values[0], few.topk);
      int64_t bytes = scratch.bytes();
      for (const fast::Scratch& s : worker) bytes += s.bytes();
      EXPECT_LT(bytes, 10 << 20) << rows << " rows";
      RecordProperty("bytes_" + std::to_string(rows), std::to_string(bytes));
    }
  }
}

// NaN in a weight, a query or a key's scale; infinite keys are no error where the exact path has none.
TEST(FastIndexSelect, BadNumbersAreTheExactPathsErrors) {
  const Case c{.heads = 4, .dim = 64, .spans = {{0, 3, 200}}};
  for (int what = 0; what < 5; ++what) {
    Inputs in = make_inputs(c, 600 + static_cast<uint32_t>(what));
    auto* key = reinterpret_cast<uint8_t*>(in.sequences[0].memory.data() + 150 * index_record(c.dim).bytes());
    if (what == 0) in.weights.values[5] = {0x7FC0};
    if (what == 1) in.queries.values[4 * 64 + 7] = {0x7FC0};
    if (what == 2) key[c.dim / 2 + 1] = e8m0_nan;
    if (what == 3) key[c.dim / 2 + 1] = 254;  // codes of 6 are infinite
    if (what == 4) in.queries.values[4 * 64 + 7] = {0x7F80};
    Choice expected;
    const Status wanted = select(*make_exact_cpu_ops(1), c, in, expected);
    for (Isa isa : available_isas()) {
      for (int threads : {1, 2}) {
        Choice found;
        const Status status = select(*make_fast_cpu_ops(threads, isa), c, in, found);
        ASSERT_EQ(static_cast<bool>(status), static_cast<bool>(wanted)) << isa_name(isa) << " " << what;
        if (!wanted) {
          EXPECT_EQ(status.error().message, wanted.error().message);
        }
        EXPECT_EQ(found.picked, expected.picked) << isa_name(isa) << " " << what;
      }
    }
  }
}

}  // namespace
}  // namespace fathom
