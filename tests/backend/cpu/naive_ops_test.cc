// Operations against naive twins written here, over odd shapes, ties, empty inputs and bad scales.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/expert_uses.h"
#include "backend/cpu/kernels.h"
#include "tensor/cache_layout.h"
#include "tests/support/tensors.h"

namespace fathom {
namespace {

using testing::as_floats;
using testing::bf16_tensor;
using testing::HostTensor;

std::vector<float> normals(std::mt19937& random, size_t n, float scale = 1) {
  std::normal_distribution<float> normal;
  std::vector<float> out(n);
  for (float& v : out) v = round_bf16(normal(random) * scale);
  return out;
}

TEST(Dot, VariantsAgreeToTheBit) {
  std::mt19937 random(1);
  const cpu::DotKernels best = cpu::select_dot_kernels();
  const cpu::DotKernels portable = cpu::portable_dot_kernels();
  for (int64_t n : {0, 1, 7, 8, 9, 31, 128, 517}) {
    std::vector<std::vector<float>> x;
    std::vector<std::vector<float>> w;
    for (int i = 0; i < 9; ++i) x.push_back(normals(random, static_cast<size_t>(n) + 1));
    for (int i = 0; i < 7; ++i) w.push_back(normals(random, static_cast<size_t>(n) + 1));
    std::vector<const float*> xs;
    std::vector<const float*> ws;
    for (const auto& v : x) xs.push_back(v.data() + 1);  // unaligned
    for (const auto& v : w) ws.push_back(v.data());
    std::vector<double> a(63);
    std::vector<double> b(63);
    best.dots(xs.data(), 9, ws.data(), 7, n, a.data());
    portable.dots(xs.data(), 9, ws.data(), 7, n, b.data());
    EXPECT_EQ(a, b) << n;
    // One at a time gives what a tile gives, and both what a plain loop gives up to rounding.
    for (size_t i = 0; i < 9; ++i) {
      for (size_t j = 0; j < 7; ++j) {
        double single;
        portable.dots(&xs[i], 1, &ws[j], 1, n, &single);
        EXPECT_EQ(single, a[i * 7 + j]);
        long double sum = 0;
        for (int64_t k = 0; k < n; ++k)
          sum += static_cast<long double>(xs[i][k]) * static_cast<long double>(ws[j][k]);
        EXPECT_NEAR(single, static_cast<double>(sum), 1e-11);
      }
    }
    std::vector<double> acc_a(static_cast<size_t>(n), 0.25);
    std::vector<double> acc_b = acc_a;
    best.add_scaled(1.0 / 3, xs[0], n, acc_a.data());
    portable.add_scaled(1.0 / 3, xs[0], n, acc_b.data());
    EXPECT_EQ(acc_a, acc_b);
  }
}

// A choice among `n` positions by `heads` heads of 64, by few or many rows, against a full sort.
class IndexSelect : public ::testing::Test {
 protected:
  static constexpr int64_t dim = 64;
  static constexpr int64_t heads = 2;

  struct Case {
    int64_t first_position, rows, ratio, topk;
    CandidateRole role = CandidateRole::none;
    int64_t blocks = 4, block_size = 8;
    bool ties = false;
  };

  void fill(const Case& c, uint32_t seed) {
    std::mt19937 random(seed);
    const int64_t positions = (c.first_position + c.rows) / c.ratio;
    const int64_t bytes = index_record(dim).bytes();
    records_.assign(static_cast<size_t>((positions / 32 + 1) * 32 * bytes), std::byte{});
    blocks_.clear();
    for (int64_t b = 0; b <= positions / 32; ++b) blocks_.push_back(records_.data() + b * 32 * bytes);
    keys_.clear();
    std::vector<float> repeated = normals(random, dim);
    for (int64_t j = 0; j < positions; ++j) {
      std::vector<float> key = c.ties && random() % 2 ? repeated : normals(random, dim);
      pack_index(key.data(), dim, records_.data() + j * bytes);
      unpack_index(records_.data() + j * bytes, dim, key.data());
      keys_.push_back(key);
    }
    queries_ = normals(random, static_cast<size_t>(c.rows * heads * dim));
    weights_ = normals(random, static_cast<size_t>(c.rows * heads));
  }

  // The scores of row r by long loops, rounded to f32.
  std::vector<float> naive_scores(const Case& c, int64_t r, float scale) const {
    std::vector<float> out;
    for (int64_t j = 0; j < (c.first_position + r + 1) / c.ratio; ++j) {
      double score = 0;
      for (int64_t h = 0; h < heads; ++h) {
        double dot = 0;
        for (int64_t d = 0; d < dim; ++d)
          dot += static_cast<double>(queries_[static_cast<size_t>((r * heads + h) * dim + d)]) *
                 static_cast<double>(keys_[static_cast<size_t>(j)][static_cast<size_t>(d)]);
        score +=
            std::max(dot, 0.0) * static_cast<double>(weights_[static_cast<size_t>(r * heads + h)] * scale);
      }
      out.push_back(static_cast<float>(score));
    }
    return out;
  }

  static std::vector<int32_t> best(const std::vector<std::pair<float, int32_t>>& scored, int64_t k) {
    auto sorted = scored;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<int32_t> out;
    for (size_t i = 0; i < sorted.size() && static_cast<int64_t>(i) < k; ++i) out.push_back(sorted[i].second);
    std::sort(out.begin(), out.end());
    return out;
  }

  void check(const Case& c, uint32_t seed, int threads) {
    fill(c, seed);
    const auto ops = make_exact_cpu_ops(threads);
    const auto q = bf16_tensor({c.rows, heads, dim}, queries_);
    const auto w = bf16_tensor({c.rows, heads}, weights_);
    HostTensor<int32_t> candidates({c.rows, c.blocks});
    HostTensor<int32_t> num_candidates({c.rows});
    HostTensor<int32_t> picked({c.rows, c.topk});
    HostTensor<int32_t> num_picked({c.rows});
    const RowSpan span{0, c.rows, c.first_position};
    const RecordsView records{blocks_, 32};
    if (c.role == CandidateRole::user) {  // every second block
      for (int64_t r = 0; r < c.rows; ++r) {
        num_candidates.values[static_cast<size_t>(r)] = static_cast<int32_t>(c.blocks);
        for (int64_t b = 0; b < c.blocks; ++b)
          candidates.values[static_cast<size_t>(r * c.blocks + b)] = static_cast<int32_t>(2 * b);
      }
    }
    ASSERT_TRUE(ops->index_select({.queries = q.view(),
                                   .head_weights = w.view(),
                                   .weight_scale = 0.125f,
                                   .spans = {&span, 1},
                                   .keys = {&records, 1},
                                   .ratio = c.ratio,
                                   .role = c.role,
                                   .candidate_block_size = c.block_size,
                                   .candidates = candidates.ref(),
                                   .num_candidates = num_candidates.ref(),
                                   .picked = picked.ref(),
                                   .num_picked = num_picked.ref(),
                                   .scores = {}}));
    for (int64_t r = 0; r < c.rows; ++r) {
      const std::vector<float> scores = naive_scores(c, r, 0.125f);
      std::vector<std::pair<float, int32_t>> scored;
      for (size_t j = 0; j < scores.size(); ++j)
        if (c.role != CandidateRole::user || (static_cast<int64_t>(j) / c.block_size % 2 == 0 &&
                                              static_cast<int64_t>(j) / c.block_size < 2 * c.blocks))
          scored.emplace_back(scores[j], static_cast<int32_t>(j));
      const int32_t n = num_picked.values[static_cast<size_t>(r)];
      const auto at = picked.values.begin() + r * c.topk;
      EXPECT_EQ(std::vector<int32_t>(at, at + n), best(scored, c.topk)) << "row " << r;
      if (c.role != CandidateRole::source) continue;
      std::vector<std::pair<float, int32_t>> blocks;
      for (size_t j = 0; j < scores.size(); ++j) {
        const auto b = static_cast<int32_t>(static_cast<int64_t>(j) / c.block_size);
        if (blocks.empty() || blocks.back().second != b) blocks.emplace_back(-INFINITY, b);
        blocks.back().first = std::max(blocks.back().first, scores[j]);
      }
      if (!blocks.empty()) blocks.back().first = INFINITY;
      const int32_t m = num_candidates.values[static_cast<size_t>(r)];
      const auto cb = candidates.values.begin() + r * c.blocks;
      EXPECT_EQ(std::vector<int32_t>(cb, cb + m), best(blocks, c.blocks)) << "row " << r;
    }
  }

  std::vector<std::byte> records_;
  std::vector<std::byte*> blocks_;
  std::vector<std::vector<float>> keys_;
  std::vector<float> queries_, weights_;
};

TEST_F(IndexSelect, AgainstFullSort) {
  uint32_t seed = 1;
  for (int threads : {1, 3}) {
    for (bool ties : {false, true}) {
      check({.first_position = 0, .rows = 1, .ratio = 2, .topk = 4, .ties = ties}, ++seed,
            threads);  // nothing visible
      check({.first_position = 0, .rows = 13, .ratio = 2, .topk = 4, .ties = ties}, ++seed, threads);
      check({.first_position = 9, .rows = 3, .ratio = 3, .topk = 512, .ties = ties}, ++seed, threads);
      check({.first_position = 700, .rows = 1, .ratio = 1, .topk = 16, .ties = ties}, ++seed, threads);
      check({.first_position = 90,
             .rows = 20,
             .ratio = 1,
             .topk = 12,
             .role = CandidateRole::source,
             .ties = ties},
            ++seed, threads);
      check({.first_position = 90,
             .rows = 2,
             .ratio = 1,
             .topk = 12,
             .role = CandidateRole::source,
             .blocks = 40,
             .ties = ties},
            ++seed, threads);
      check({.first_position = 90,
             .rows = 9,
             .ratio = 1,
             .topk = 12,
             .role = CandidateRole::user,
             .ties = ties},
            ++seed, threads);
    }
  }
}

// Two FP8 experts and a shared one on three rows, by the definition.
TEST(ExpertLayer, AgainstDefinition) {
  std::mt19937 random(3);
  constexpr int64_t dim = 64;
  constexpr int64_t inter = 32;
  std::vector<std::vector<uint8_t>> storage;
  const auto make = [&](int64_t out, int64_t in) {
    storage.emplace_back(static_cast<size_t>(out * in));
    for (uint8_t& c : storage.back())
      c = float_to_e4m3(static_cast<float>(static_cast<int>(random() % 17) - 8));
    const auto* codes = reinterpret_cast<const std::byte*>(storage.back().data());
    storage.emplace_back(static_cast<size_t>(out / 32 * (in / 32)), uint8_t{123});  // 2^-4
    return Weight{{codes, DType::e4m3, Shape{out, in}, "w"},
                  {reinterpret_cast<const std::byte*>(storage.back().data()), DType::e8m0,
                   Shape{out / 32, in / 32}, "w.scale"},
                  fp8_weight_block};
  };
  storage.reserve(64);
  std::vector<ExpertWeights> all;
  for (int i = 0; i < 3; ++i) all.push_back({make(inter, dim), make(dim, inter), make(inter, dim)});
  ResidentExperts routed(std::move(all));
  const ExpertWeights shared{make(inter, dim), make(dim, inter), make(inter, dim)};
  const std::vector<float> x = normals(random, 3 * dim);
  const HostTensor<int32_t> experts({3, 2}, {2, 0, 1, 2, 2, 1});
  const HostTensor<float> weights({3, 2}, {0.75f, 0.5f, 1.25f, 0.3f, 0.1f, 0.9f});
  const auto in = bf16_tensor({3, dim}, x);
  HostTensor<bf16> out({3, dim});
  const auto ops = make_exact_cpu_ops(2);
  ASSERT_TRUE(ops->expert_layer({.x = in.view(),
                                 .experts = experts.view(),
                                 .weights = weights.view(),
                                 .routed = &routed,
                                 .shared = &shared,
                                 .swiglu_limit = 10,
                                 .out = out.ref()}));
  const auto apply = [](const Weight& w, std::vector<float> v) {
    round_to_fp8_grid(v.data(), static_cast<int64_t>(v.size()));
    std::vector<float> y;
    std::vector<float> row(v.size());
    for (int64_t o = 0; o < w.out(); ++o) {
      EXPECT_TRUE(load_row(w, o, row.data()));
      y.push_back(round_bf16(static_cast<float>(std::inner_product(v.begin(), v.end(), row.begin(), 0.0))));
    }
    return y;
  };
  const auto expert = [&](const ExpertWeights& e, const std::vector<float>& v, float weight) {
    const std::vector<float> g = apply(e.w1, v);
    const std::vector<float> u = apply(e.w3, v);
    std::vector<float> h;
    for (size_t i = 0; i < g.size(); ++i) {
      const double gate = std::min(static_cast<double>(g[i]), 10.0);
      const double up = std::clamp(static_cast<double>(u[i]), -10.0, 10.0);
      h.push_back(round_bf16(static_cast<float>(gate / (1 + std::exp(-gate)) * up) * weight));
    }
    return apply(e.w2, h);
  };
  for (size_t r = 0; r < 3; ++r) {
    const std::vector<float> row(x.begin() + static_cast<int64_t>(r) * dim,
                                 x.begin() + static_cast<int64_t>(r + 1) * dim);
    std::vector<float> sum(dim, 0.0f);
    for (int32_t e = 0; e < 3; ++e) {
      for (size_t k = 0; k < 2; ++k) {
        if (experts.values[r * 2 + k] != e) continue;
        const std::vector<float> y = expert(routed[e], row, weights.values[r * 2 + k]);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += y[i];
      }
    }
    const std::vector<float> y = expert(shared, row, 1);
    for (size_t i = 0; i < sum.size(); ++i)
      EXPECT_EQ(to_float(out.values[r * dim + i]), round_bf16(sum[i] + y[i]));
  }

  // A NaN scale in an expert that is used is an error naming it; in one that is not, it is never read.
  auto* scale = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(routed[1].w2.scale.data));
  *scale = e8m0_nan;
  const ExpertLayerParams bad{.x = in.view(),
                              .experts = experts.view(),
                              .weights = weights.view(),
                              .routed = &routed,
                              .shared = &shared,
                              .swiglu_limit = 10,
                              .out = out.ref()};
  const Status refused = ops->expert_layer(bad);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "w.scale: expected E8M0 scales, found NaN (0xFF)");
  ExpertLayerParams unused = bad;
  const HostTensor<int32_t> others({3, 2}, {2, 0, 0, 2, 2, 0});
  unused.experts = others.view();
  EXPECT_TRUE(ops->expert_layer(unused));
}

// f32 sums depend on their order, which is that of the experts, not of the choices (spec 1, MoE).
TEST(ExpertLayer, ResultsAreAddedInAscendingOrderOfExperts) {
  const HostTensor<int32_t> experts({2, 4}, {5, 2, 9, 0, 1, 3, 2, 4});
  ExpertLayerParams p;
  p.experts = experts.view();
  EXPECT_EQ(cpu::ascending_slots(p, 0), (std::vector<int64_t>{3, 1, 0, 2}));
  EXPECT_EQ(cpu::ascending_slots(p, 1), (std::vector<int64_t>{4, 6, 5, 7}));
}

// Gate and write-back by the definition; a dead row keeps its stream.
TEST(EngramWrite, AgainstDefinition) {
  std::mt19937 random(4);
  constexpr size_t hc = 3;
  constexpr size_t dim = 40;
  const std::vector<float> kv = normals(random, 2 * (hc + 1) * dim);
  const std::vector<float> h = normals(random, 2 * hc * dim);
  const std::vector<float> qw = normals(random, hc * dim);
  const std::vector<float> kw = normals(random, hc * dim);
  const auto kv_tensor = bf16_tensor({2, (hc + 1) * dim}, kv);
  const HostTensor<float> q_weight({hc, dim}, qw);
  const HostTensor<float> k_weight({hc, dim}, kw);
  const HostTensor<uint8_t> dead({2}, {0, 1});
  auto stream = bf16_tensor({2, hc, dim}, h);
  make_exact_cpu_ops(1)->engram_write({.kv = kv_tensor.view(),
                                       .q_weight = q_weight.view(),
                                       .k_weight = k_weight.view(),
                                       .norm_eps = 1e-20,
                                       .dead_rows = dead.view(),
                                       .stream = stream.ref()});
  const std::vector<float> out = as_floats(stream);
  for (size_t c = 0; c < hc; ++c) {
    long double dot = 0;
    long double hh = 0;
    long double kk = 0;
    for (size_t i = 0; i < dim; ++i) {
      const long double a = h[c * dim + i];
      const long double k = kv[c * dim + i];
      dot += a * static_cast<long double>(qw[c * dim + i] * kw[c * dim + i]) * k;
      hh += a * a;
      kk += k * k;
    }
    dot /= std::sqrt(hh / dim) * std::sqrt(kk / dim) * std::sqrt(static_cast<long double>(dim));
    const long double root = std::copysign(std::sqrt(std::max(std::fabs(dot), 1e-6L)), dot);
    const long double gate = 1 / (1 + std::exp(-root));
    for (size_t i = 0; i < dim; ++i)
      EXPECT_EQ(out[c * dim + i], round_bf16(static_cast<float>(h[c * dim + i] + gate * kv[hc * dim + i])));
  }
  EXPECT_TRUE(std::equal(out.begin() + hc * dim, out.end(), h.begin() + hc * dim));
}

TEST(EngramGather, RowsSideBySideAndNanScales) {
  std::vector<uint8_t> codes(5 * 64);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i % 0x7E);
  std::vector<uint8_t> scales = {120, 121, 122, 123, 124, 125, 126, 127, e8m0_nan, 129};
  const Weight table{{reinterpret_cast<const std::byte*>(codes.data()), DType::e4m3, Shape{5, 64}, "t"},
                     {reinterpret_cast<const std::byte*>(scales.data()), DType::e8m0, Shape{5, 2}, "t.scale"},
                     engram_table_block};
  HostTensor<int64_t> ids({2, 3}, {0, 3, 1, 2, 2, 0});
  HostTensor<bf16> out({2, 192});
  const auto ops = make_exact_cpu_ops(1);
  ASSERT_TRUE(ops->engram_gather({.ids = ids.view(), .table = table, .out = out.ref()}));
  for (size_t i = 0; i < 6; ++i)
    for (size_t d = 0; d < 64; ++d) {
      const auto row = static_cast<size_t>(ids.values[i]);
      EXPECT_EQ(to_float(out.values[i * 64 + d]),
                e4m3_to_float(codes[row * 64 + d]) * e8m0_to_float(scales[row * 2 + d / 32]));
    }
  ids.values[4] = 4;
  const Status refused = ops->engram_gather({.ids = ids.view(), .table = table, .out = out.ref()});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "t.scale: expected E8M0 scales, found NaN (0xFF)");
}

// The largest sizes a configuration may ask for are computed, not refused half-way.
TEST(Ops, LargestSizesOfAConfiguration) {
  const auto ops = make_exact_cpu_ops(1);
  constexpr int64_t ratio = 1024;
  const HostTensor<float> kv({ratio, 4}, std::vector<float>(ratio * 4, 2.0f));
  const HostTensor<float> score({ratio, 4});
  HostTensor<float> ring({ratio + 1, 2, 4});
  HostTensor<bf16> latent({1, 4});
  const RowSpan span{0, ratio, 0};
  const GroupSpan group{0, 1, 0};
  const RingView open{ring.ref().data, ratio + 1};
  ops->pool_groups({.kv = kv.view(),
                    .score = score.view(),
                    .ratio = ratio,
                    .spans = {&span, 1},
                    .groups = {&group, 1},
                    .open = {&open, 1},
                    .out = latent.ref()});
  EXPECT_EQ(as_floats(latent), std::vector<float>(4, 2.0f));

  HostTensor<bf16> x({1, 1, 8192});
  const HostTensor<int32_t> positions({1}, {3});
  const HostTensor<float> freqs({4096});
  ops->rope({.x = x.ref(), .positions = positions.view(), .freqs = freqs.view()});

  HostTensor<bf16> stream({1, 16, 4}, std::vector<bf16>(64, to_bf16(1.0f)));
  const HostTensor<bf16> y({1, 4});
  const HostTensor<float> post({1, 16});
  const HostTensor<float> comb({1, 16, 16}, std::vector<float>(256, 1.0f / 16));
  ops->expand({.y = y.view(), .post = post.view(), .comb = comb.view(), .stream = stream.ref()});
  EXPECT_EQ(as_floats(stream), std::vector<float>(64, 1.0f));
}

TEST(Ops, NoRowsIsNoWork) {
  const auto ops = make_exact_cpu_ops(2);
  const HostTensor<bf16> in({0, 64});
  const HostTensor<float> weight({64}, std::vector<float>(64, 1.0f));
  const HostTensor<float> matrix({8, 64});
  HostTensor<bf16> out({0, 64});
  HostTensor<bf16> y({0, 8});
  ops->rms_norm({.in = in.view(), .weight = weight.view(), .eps = 1e-20, .out = out.ref()});
  EXPECT_TRUE(ops->linear({.in = in.view(), .weight = {matrix.view(), {}, {}}, .out = y.ref()}));
}

}  // namespace
}  // namespace fathom
