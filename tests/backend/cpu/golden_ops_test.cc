// The exact CPU path's operations against the golden values of single operations.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/kernels.h"
#include "model/rope_table.h"
#include "tests/support/golden.h"
#include "tests/support/tensors.h"

namespace fathom::testing {
namespace {

class GoldenOps : public ::testing::Test {
 protected:
  std::unique_ptr<Ops> ops_ = make_exact_cpu_ops(2);
};

// f64 sums in another order may round another way once in a while; never by more than one bf16 step.
void expect_bf16_equal(const std::vector<float>& got, const std::vector<float>& want,
                       double allowed_share = 0) {
  ASSERT_EQ(got.size(), want.size());
  size_t different = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i]) continue;
    ++different;
    EXPECT_NEAR(got[i], want[i], std::fabs(want[i]) / 128) << i;
  }
  EXPECT_LE(static_cast<double>(different), allowed_share * static_cast<double>(got.size()));
}

void expect_f32_noise(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 2e-7 * std::fabs(want[i]) + 1e-12) << i;
}

TEST_F(GoldenOps, Linear) {
  const Golden golden("ops/linear.safetensors");
  const auto x = bf16_tensor({7, 128}, golden.floats("x"));
  TensorView packed = golden.view("fp4.weight");
  packed.dtype = DType::e2m1x2;
  const Weight fp8{golden.view("fp8.weight"), golden.view("fp8.scale"), fp8_weight_block};
  const Weight fp4{packed, golden.view("fp4.scale"), fp4_weight_block};
  HostTensor<bf16> y8({7, 80});
  HostTensor<bf16> y4({7, 48});
  ASSERT_TRUE(ops_->linear({.in = x.view(), .weight = fp8, .out = y8.ref()}));
  ASSERT_TRUE(ops_->linear({.in = x.view(), .weight = fp4, .out = y4.ref()}));
  expect_bf16_equal(as_floats(y8), golden.floats("y_fp8"));
  expect_bf16_equal(as_floats(y4), golden.floats("y_fp4"));
}

// The plain linear has no golden output: the naive sum in long double is its definition.
TEST_F(GoldenOps, PlainLinearAgainstNaiveSum) {
  const Golden golden("ops/linear.safetensors");
  const std::vector<float> x = golden.floats("x");
  const std::vector<float> w = golden.floats("w_bf16");
  const auto in = bf16_tensor({7, 128}, x);
  HostTensor<float> y({7, 40});
  ASSERT_TRUE(ops_->linear({.in = in.view(), .weight = {golden.view("w_bf16"), {}, {}}, .out = y.ref()}));
  for (size_t r = 0; r < 7; ++r) {
    for (size_t o = 0; o < 40; ++o) {
      long double sum = 0;
      for (size_t k = 0; k < 128; ++k)
        sum += static_cast<long double>(x[r * 128 + k]) * static_cast<long double>(w[o * 128 + k]);
      EXPECT_EQ(y.values[r * 40 + o], static_cast<float>(sum));
    }
  }
}

TEST_F(GoldenOps, RmsNorm) {
  const Golden golden("ops/rms_norm.safetensors");
  const auto x = bf16_tensor({4, 512}, golden.floats("x"));
  const HostTensor<float> weight({512}, golden.floats("weight"));
  for (const auto& [eps, name] : {std::pair{1e-20, "y_eps_1e-20"}, std::pair{1e-6, "y_eps_1e-6"}}) {
    HostTensor<bf16> y({4, 512});
    ops_->rms_norm({.in = x.view(), .weight = weight.view(), .eps = eps, .out = y.ref()});
    expect_bf16_equal(as_floats(y), golden.floats(name));
  }
  const HostTensor<bf16> zeros({1, 512});
  HostTensor<bf16> y({1, 512});
  ops_->rms_norm({.in = zeros.view(), .weight = weight.view(), .eps = 1e-20, .out = y.ref()});
  for (float v : as_floats(y)) EXPECT_EQ(v, 0.0f);
}

TEST_F(GoldenOps, RopeFrequencies) {
  const Golden golden("ops/rope.safetensors");
  EXPECT_EQ(rope_frequencies({.dim = 64, .theta = 10000}), golden.floats("freqs_plain_64_10000"));
  EXPECT_EQ(rope_frequencies({.dim = 64,
                              .theta = 160000,
                              .original_seq_len = 65536,
                              .factor = 16,
                              .beta_fast = 32,
                              .beta_slow = 1}),
            golden.floats("freqs_yarn_64_160000_65536_16_32_1"));
}

TEST_F(GoldenOps, Rope) {
  const Golden golden("ops/rope.safetensors");
  const std::vector<int64_t> positions64 = golden.values<int64_t>("positions");
  HostTensor<int32_t> positions({static_cast<int64_t>(positions64.size())});
  for (size_t i = 0; i < positions64.size(); ++i) positions.values[i] = static_cast<int32_t>(positions64[i]);
  for (const auto& [freqs_name, name] : {std::pair{"freqs_plain_64_10000", "y_plain"},
                                         std::pair{"freqs_yarn_64_160000_65536_16_32_1", "y_yarn"}}) {
    auto x = bf16_tensor({10, 3, 96}, golden.floats("x"));
    const HostTensor<float> freqs({32}, golden.floats(freqs_name));
    ops_->rope({.x = x.ref(), .positions = positions.view(), .freqs = freqs.view()});
    EXPECT_EQ(as_floats(x), golden.floats(name));
  }
  const HostTensor<float> freqs({32}, golden.floats("freqs_yarn_64_160000_65536_16_32_1"));
  std::vector<float> x = golden.floats("x");
  for (size_t r = 0; r < 10; ++r)
    for (size_t h = 0; h < 3; ++h)
      cpu::Rotation(positions.values[r], freqs.view(), true).apply(x.data() + (r * 3 + h) * 96, 96);
  EXPECT_EQ(x, golden.floats("y_yarn_inverse"));
}

// Adjacent elements are a pair: a one-hot vector shows which elements a rotation mixes.
TEST_F(GoldenOps, RopePairsAreAdjacent) {
  HostTensor<bf16> x({1, 1, 128});
  x.values[64] = to_bf16(1.0f);
  const HostTensor<int32_t> positions({1}, {1});
  const HostTensor<float> freqs({32}, rope_frequencies({.dim = 64, .theta = 10000}));
  ops_->rope({.x = x.ref(), .positions = positions.view(), .freqs = freqs.view()});
  const std::vector<float> y = as_floats(x);
  EXPECT_EQ(y[64], round_bf16(static_cast<float>(std::cos(1.0))));
  EXPECT_EQ(y[65], round_bf16(static_cast<float>(std::sin(1.0))));
  for (size_t i = 0; i < 128; ++i) EXPECT_EQ(y[i] != 0.0f, i == 64 || i == 65) << i;
}

TEST_F(GoldenOps, HyperSplit) {
  const Golden golden("ops/hyper_connections.safetensors");
  const std::vector<float> mixes = golden.floats("mixes");
  const std::vector<float> scale = golden.floats("scale");
  const std::vector<float> base = golden.floats("base");
  for (int64_t iters : {1, 2, 3, 20}) {
    std::vector<float> pre(24);
    std::vector<float> post(24);
    std::vector<float> comb(96);
    for (size_t r = 0; r < 6; ++r) {
      const std::vector<double> m(mixes.begin() + static_cast<int64_t>(r) * 24,
                                  mixes.begin() + static_cast<int64_t>(r + 1) * 24);
      cpu::hyper_split(m.data(), scale.data(), base.data(), 4, iters, 1e-6, pre.data() + r * 4,
                       post.data() + r * 4, comb.data() + r * 16);
    }
    expect_f32_noise(pre, golden.floats("pre"));
    expect_f32_noise(post, golden.floats("post"));
    expect_f32_noise(comb, golden.floats("comb_iters_" + std::to_string(iters)));
  }
}

TEST_F(GoldenOps, CollapseAndExpand) {
  const Golden golden("ops/hyper_connections.safetensors");
  auto stream = bf16_tensor({6, 4, 32}, golden.floats("stream"));
  const auto y = bf16_tensor({6, 32}, golden.floats("sublayer"));
  const HostTensor<float> pre({6, 4}, golden.floats("pre_mix"));
  const HostTensor<float> post({6, 4}, golden.floats("post"));
  const HostTensor<float> comb({6, 4, 4}, golden.floats("comb_iters_20"));
  // The norm follows the collapse inside one operation: compare with the norm of the golden collapse.
  const HostTensor<float> weight({32}, std::vector<float>(32, 1.0f));
  const auto collapsed = bf16_tensor({6, 32}, golden.floats("collapsed"));
  HostTensor<bf16> want({6, 32});
  HostTensor<bf16> got({6, 32});
  ops_->rms_norm({.in = collapsed.view(), .weight = weight.view(), .eps = 1e-20, .out = want.ref()});
  ops_->collapse_norm({.stream = stream.view(),
                       .pre = pre.view(),
                       .weight = weight.view(),
                       .norm_eps = 1e-20,
                       .out = got.ref()});
  EXPECT_EQ(as_floats(got), as_floats(want));
  ops_->expand({.y = y.view(), .post = post.view(), .comb = comb.view(), .stream = stream.ref()});
  EXPECT_EQ(as_floats(stream), golden.floats("expanded_iters_20"));
}

TEST_F(GoldenOps, Gate) {
  for (const auto& [score, name] :
       {std::pair{RouterScore::sqrtsoftplus, "sqrtsoftplus"}, std::pair{RouterScore::sigmoid, "sigmoid"},
        std::pair{RouterScore::softmax, "softmax"}}) {
    SCOPED_TRACE(name);
    const Golden golden(std::string("ops/gate_") + name + ".safetensors");
    const auto x = bf16_tensor({9, 64}, golden.floats("x"));
    const HostTensor<uint8_t> image({9}, golden.values<uint8_t>("image_mask"));
    HostTensor<int32_t> experts({9, 6});
    HostTensor<float> weights({9, 6});
    ASSERT_TRUE(ops_->route({.x = x.view(),
                             .gate = golden.view("weight"),
                             .bias = golden.view("bias"),
                             .image_bias = golden.view("bias_vl"),
                             .image_rows = image.view(),
                             .score = score,
                             .route_scale = 1.5,
                             .experts = experts.ref(),
                             .weights = weights.ref()}));
    EXPECT_EQ(experts.values, golden.values<int32_t>("experts"));
    expect_f32_noise(weights.values, golden.floats("weights"));
  }
}

TEST_F(GoldenOps, CompressorPooling) {
  for (int64_t ratio : {2, 3}) {
    SCOPED_TRACE(ratio);
    const Golden golden("ops/compressor_ratio_" + std::to_string(ratio) + ".safetensors");
    const auto x = bf16_tensor({11, 48}, golden.floats("x"));
    HostTensor<float> kv({11, 64});
    HostTensor<float> score({11, 64});
    ASSERT_TRUE(ops_->linear({.in = x.view(), .weight = {golden.view("wkv"), {}, {}}, .out = kv.ref()}));
    ASSERT_TRUE(ops_->linear({.in = x.view(), .weight = {golden.view("wgate"), {}, {}}, .out = score.ref()}));
    // In one piece, and cut anywhere: the open rows wait in the ring.
    for (int64_t cut = 0; cut <= 11; ++cut) {
      const int64_t num_groups = 11 / ratio;
      HostTensor<bf16> latents({num_groups, 64});
      const int64_t slots = ratio - 1 + 2;
      HostTensor<float> ring({slots, 2, 64});
      const RingView open{ring.ref().data, slots};
      for (const auto& [begin, end] : {std::pair{int64_t{0}, cut}, std::pair{cut, int64_t{11}}}) {
        const RowSpan span{0, end - begin, begin};
        const GroupSpan groups{begin / ratio, end / ratio - begin / ratio, 0};
        ops_->pool_groups({.kv = kv.ref().slice(begin, end - begin),
                           .score = score.ref().slice(begin, end - begin),
                           .ratio = ratio,
                           .spans = {&span, 1},
                           .groups = {&groups, 1},
                           .open = {&open, 1},
                           .out = latents.ref().slice(groups.first_group, groups.num_groups)});
      }
      ops_->rms_norm(
          {.in = latents.view(), .weight = golden.view("norm"), .eps = 1e-20, .out = latents.ref()});
      EXPECT_EQ(as_floats(latents), golden.floats("latents")) << "cut at " << cut;
    }
  }
}

TEST_F(GoldenOps, SparseAttention) {
  const Golden golden("ops/sparse_attention.safetensors");
  const std::vector<float> q = golden.floats("q");
  const std::vector<float> kv = golden.floats("kv");
  const std::vector<float> sinks = golden.floats("attn_sink");
  const std::vector<int32_t> indices = golden.values<int32_t>("indices");
  ThreadPool pool(1);
  cpu::Scratch scratch;
  const cpu::Context context{pool, cpu::select_dot_kernels(), scratch, {&scratch, 1}};
  std::vector<float> out(5 * 4 * 64);
  std::vector<double> scores;
  for (size_t r = 0; r < 5; ++r) {
    std::vector<const float*> keys;
    for (size_t i = 0; i < 40; ++i)
      if (indices[r * 40 + i] >= 0) keys.push_back(kv.data() + indices[r * 40 + i] * 64);
    const float* heads[4];
    for (size_t h = 0; h < 4; ++h) heads[h] = q.data() + (r * 4 + h) * 64;
    cpu::attend(context,
                {.queries = heads,
                 .num_queries = 4,
                 .keys = keys.data(),
                 .values = keys.data(),
                 .num_keys = static_cast<int64_t>(keys.size()),
                 .dim = 64,
                 .sinks = sinks.data()},
                scores, out.data() + r * 4 * 64);
  }
  expect_bf16_equal(out, golden.floats("o"), 0.002);
}

TEST_F(GoldenOps, CandidateBlocks) {
  const Golden golden("ops/candidate_blocks.safetensors");
  const std::vector<float> scores = golden.floats("scores");
  const std::vector<int32_t> visible = golden.values<int32_t>("visible");
  for (const auto& [k, block] : {std::pair{2, 8}, std::pair{3, 4}, std::pair{1, 16}, std::pair{7, 8}}) {
    const std::vector<uint8_t> want =
        golden.values<uint8_t>("keep_blocks_" + std::to_string(k) + "_size_" + std::to_string(block));
    for (size_t r = 0; r < visible.size(); ++r) {
      std::vector<int32_t> blocks(static_cast<size_t>(k));
      const int32_t n = cpu::choose_blocks({scores.data() + r * 53, 53}, visible[r], block, k, blocks.data());
      std::vector<uint8_t> keep(53, 0);
      for (int32_t b = 0; b < n; ++b)
        for (int32_t j = blocks[static_cast<size_t>(b)] * block;
             j < std::min((blocks[static_cast<size_t>(b)] + 1) * block, 53); ++j)
          keep[static_cast<size_t>(j)] = 1;
      // The golden mask covers whole blocks, the part of the newest that is not visible yet included.
      EXPECT_EQ(keep, std::vector<uint8_t>(want.begin() + static_cast<int64_t>(r) * 53,
                                           want.begin() + static_cast<int64_t>(r + 1) * 53))
          << r << " " << k << " " << block;
    }
  }
}

TEST_F(GoldenOps, SwiGlu) {
  const Golden golden("ops/swiglu.safetensors");
  const std::vector<float> gate = golden.floats("gate");
  const std::vector<float> up = golden.floats("up");
  const std::vector<float> weight = golden.floats("weight");
  const std::vector<float> y = golden.floats("y");
  const std::vector<float> weighted = golden.floats("y_weighted");
  for (size_t i = 0; i < gate.size(); ++i) {
    EXPECT_EQ(cpu::swiglu(gate[i], up[i], 10, 1), y[i]) << i;
    EXPECT_EQ(cpu::swiglu(gate[i], up[i], 10, weight[i / 64]), weighted[i]) << i;
  }
  EXPECT_EQ(cpu::swiglu(3, 50, 0, 1), round_bf16(static_cast<float>(3.0 / (1 + std::exp(-3.0)) * 50)));
}

// log1p(exp(z)) must not vanish for very negative z, nor overflow for large z.
TEST_F(GoldenOps, SoftplusOverItsWholeRange) {
  for (double z = -104; z <= 200; z += 0.5) {
    double s = z;
    cpu::score_logits(RouterScore::sqrtsoftplus, &s, 1);
    const long double want = std::sqrt(std::log1p(std::exp(static_cast<long double>(z))));
    EXPECT_NEAR(s / static_cast<double>(want), 1, 1e-8) << z;
  }
}

}  // namespace
}  // namespace fathom::testing
