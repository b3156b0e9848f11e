// Row-wise operations of the text model against the exact ones.
#include <gtest/gtest.h>

#include "tensor/cache_layout.h"
#include "tests/backend/fast/row_check.h"

namespace fathom::testing {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// Row 1 holds a NaN, row 2 an infinity, row 3 numbers whose squares no f32 holds, row 4 zeros.
void make_special(std::vector<bf16>& x, int64_t width) {
  const auto row = [&](int64_t r) { return x.begin() + r * width; };
  *(row(1) + width / 2) = to_bf16(nan);
  *(row(2) + width - 1) = to_bf16(-inf);
  for (auto i = row(3); i != row(4); ++i) *i = to_bf16(to_float(*i) * 1e25f);
  std::fill(row(4), row(5), bf16{});
}

void check_rms_norm(int64_t rows, int64_t dim, bool special, bool f32_weight, double eps) {
  std::mt19937 random(static_cast<uint32_t>(dim));
  std::vector<bf16> x = bf16_normals(random, rows * dim, 3);
  if (special) make_special(x, dim);
  HostTensor<bf16> narrow({dim}, bf16_normals(random, dim));
  HostTensor<float> wide({dim}, normals(random, dim));
  check_rows(rows, [&](Ops& ops, int64_t first, int64_t count) {
    HostTensor<bf16> in({count, dim}, rows_of(x, first, count, dim));
    HostTensor<bf16> out({count, dim});
    ops.rms_norm({in.view(), f32_weight ? wide.view() : narrow.view(), eps, out.ref()});
    ops.rms_norm({in.view(), f32_weight ? wide.view() : narrow.view(), eps, in.ref()});  // in place
    EXPECT_EQ(floats(in.values).size(), floats(out.values).size());
    for (size_t i = 0; i < in.values.size(); ++i) EXPECT_EQ(in.values[i], out.values[i]);
    return floats(out.values);
  });
}

TEST(RowOps, RmsNorm) {
  for (int64_t dim : {1, 15, 32, 64, 96, 128, 1280, 5120}) check_rms_norm(5, dim, false, dim % 64 == 0, 1e-6);
  check_rms_norm(600, 512, false, false, 1e-20);  // enough for several threads
}

TEST(RowOps, RmsNormOfSpecialValues) {
  check_rms_norm(7, 512, true, false, 1e-20);
  check_rms_norm(7, 96, true, true, 1e-20);
}

struct Hyper {
  int64_t rows, copies, dim;
};
const Hyper hypers[] = {{3, 4, 64},  {5, 4, 96}, {2, 4, 5120}, {37, 4, 288},
                        {3, 2, 128}, {4, 1, 40}, {3, 3, 544},  {70, 4, 1024}};

void check_hyper_mix(const Hyper& h, bool special) {
  std::mt19937 random(static_cast<uint32_t>(h.dim));
  const int64_t mixes = (2 + h.copies) * h.copies;
  const int64_t flat = h.copies * h.dim;
  std::vector<bf16> stream = bf16_normals(random, h.rows * flat, 2);
  if (special) make_special(stream, flat);
  HostTensor<float> fn({mixes, flat}, normals(random, mixes * flat, 0.05f));
  HostTensor<float> base({mixes}, normals(random, mixes));
  HostTensor<float> scale({3}, {0.7f, 1.1f, 0.9f});
  for (int part : {0, 1, 2}) {
    SCOPED_TRACE(part);
    check_rows(
        h.rows,
        [&](Ops& ops, int64_t first, int64_t count) {
          HostTensor<bf16> in({count, h.copies, h.dim}, rows_of(stream, first, count, flat));
          HostTensor<float> pre({count, h.copies});
          HostTensor<float> post({count, h.copies});
          HostTensor<float> comb({count, h.copies, h.copies});
          ops.hyper_mix({in.view(), fn.view(), base.view(), scale.view(), 1e-20, 1e-6, 20, pre.ref(),
                         post.ref(), comb.ref()});
          return part == 0 ? pre.values : part == 1 ? post.values : comb.values;
        },
        2e-5);
  }
}

TEST(RowOps, HyperMix) {
  for (const Hyper& h : hypers) {
    SCOPED_TRACE(::testing::Message() << h.rows << " x " << h.copies << " x " << h.dim);
    check_hyper_mix(h, false);
  }
}

TEST(RowOps, HyperMixOfSpecialValues) {
  check_hyper_mix({6, 4, 576}, true);
  check_hyper_mix({5, 2, 64}, true);
}

void check_collapse(const Hyper& h, bool norm, bool special) {
  std::mt19937 random(static_cast<uint32_t>(h.dim + 1));
  std::vector<bf16> stream = bf16_normals(random, h.rows * h.copies * h.dim, 2);
  if (special) make_special(stream, h.copies * h.dim);
  const std::vector<float> pre = normals(random, h.rows * h.copies);
  HostTensor<bf16> weight({h.dim}, bf16_normals(random, h.dim));
  check_rows(h.rows, [&](Ops& ops, int64_t first, int64_t count) {
    HostTensor<bf16> in({count, h.copies, h.dim}, rows_of(stream, first, count, h.copies * h.dim));
    HostTensor<float> coefficients({count, h.copies}, rows_of(pre, first, count, h.copies));
    HostTensor<bf16> out({count, h.dim});
    ops.collapse_norm(
        {in.view(), coefficients.view(), norm ? weight.view() : TensorView{}, 1e-20, out.ref()});
    return floats(out.values);
  });
}

TEST(RowOps, CollapseNorm) {
  for (const Hyper& h : hypers)
    for (bool norm : {false, true}) check_collapse(h, norm, false);
  check_collapse({6, 4, 96}, true, true);
  check_collapse({6, 4, 96}, false, true);
}

void check_expand(const Hyper& h, bool special) {
  std::mt19937 random(static_cast<uint32_t>(h.dim + 2));
  const int64_t flat = h.copies * h.dim;
  std::vector<bf16> stream = bf16_normals(random, h.rows * flat, 2);
  if (special) make_special(stream, flat);
  const std::vector<bf16> y = bf16_normals(random, h.rows * h.dim);
  const std::vector<float> post = normals(random, h.rows * h.copies);
  const std::vector<float> comb = normals(random, h.rows * h.copies * h.copies);
  check_rows(h.rows, [&](Ops& ops, int64_t first, int64_t count) {
    HostTensor<bf16> value({count, h.dim}, rows_of(y, first, count, h.dim));
    HostTensor<float> p({count, h.copies}, rows_of(post, first, count, h.copies));
    HostTensor<float> c({count, h.copies, h.copies}, rows_of(comb, first, count, h.copies * h.copies));
    HostTensor<bf16> out({count, h.copies, h.dim}, rows_of(stream, first, count, flat));
    ops.expand({value.view(), p.view(), c.view(), out.ref()});
    return floats(out.values);
  });
}

TEST(RowOps, Expand) {
  for (const Hyper& h : hypers) check_expand(h, false);
  check_expand({6, 4, 96}, true);
}

TEST(RowOps, DraftFeature) {
  for (const Hyper& h : hypers) {
    std::mt19937 random(static_cast<uint32_t>(h.dim + 3));
    const std::vector<bf16> stream = bf16_normals(random, h.rows * h.copies * h.dim);
    check_rows(h.rows, [&](Ops& ops, int64_t first, int64_t count) {
      HostTensor<bf16> in({count, h.copies, h.dim}, rows_of(stream, first, count, h.copies * h.dim));
      HostTensor<bf16> out({count, 2 * h.dim + 7});
      ops.draft_feature({in.view(), h.dim + 7, out.ref()});
      return floats(out.values);
    });
  }
}

TEST(RowOps, Embed) {
  std::mt19937 random(4);
  HostTensor<bf16> narrow({9, 40}, bf16_normals(random, 360));
  HostTensor<float> wide({9, 40}, normals(random, 360));
  const std::vector<int32_t> ids = {8, 0, 3, 3, 7};
  for (bool f32 : {false, true}) {
    check_rows(
        5,
        [&](Ops& ops, int64_t first, int64_t count) {
          HostTensor<int32_t> in({count}, rows_of(ids, first, count, 1));
          HostTensor<bf16> stream({count, 4, 40});
          HostTensor<float> pre({count, 4});
          ops.embed({in.view(), f32 ? wide.view() : narrow.view(), stream.ref(), pre.ref()});
          std::vector<float> out = floats(stream.values);
          if (f32) return out;
          return std::vector<float>(pre.values);
        },
        0);
    const auto fast = make_fast_cpu_ops(1);
    HostTensor<int32_t> in({5}, std::vector<int32_t>(ids));
    HostTensor<bf16> stream({5, 4, 40});
    HostTensor<float> pre({5, 4});
    fast->embed({in.view(), narrow.view(), stream.ref(), pre.ref()});
    for (size_t i = 0; i < stream.values.size(); ++i)
      EXPECT_EQ(stream.values[i], narrow.values[static_cast<size_t>(ids[i / 160]) * 40 + i % 40]);
  }
}

void check_engram(const Hyper& h, bool special) {
  std::mt19937 random(static_cast<uint32_t>(h.dim + 5));
  const int64_t flat = h.copies * h.dim;
  std::vector<bf16> stream = bf16_normals(random, h.rows * flat);
  if (special) make_special(stream, flat);
  const std::vector<bf16> kv = bf16_normals(random, h.rows * (flat + h.dim), 4);
  HostTensor<float> q({h.copies, h.dim}, normals(random, flat));
  HostTensor<bf16> k({h.copies, h.dim}, bf16_normals(random, flat));
  std::vector<uint8_t> dead(static_cast<size_t>(h.rows));
  dead[0] = 1;
  for (bool with_dead : {false, true}) {
    check_rows(h.rows, [&](Ops& ops, int64_t first, int64_t count) {
      HostTensor<bf16> in({count, flat + h.dim}, rows_of(kv, first, count, flat + h.dim));
      HostTensor<uint8_t> d({count}, rows_of(dead, first, count, 1));
      HostTensor<bf16> out({count, h.copies, h.dim}, rows_of(stream, first, count, flat));
      EngramWriteParams p{in.view(), q.view(), k.view(), 1e-20, {}, out.ref()};
      if (with_dead) p.dead_rows = d.view();
      ops.engram_write(p);
      return floats(out.values);
    });
  }
}

TEST(RowOps, EngramWrite) {
  for (const Hyper& h : hypers) check_engram(h, false);
  check_engram({6, 4, 96}, true);
}

struct Router {
  RouterScore score;
  int64_t rows, dim, experts, chosen;
  bool images;
};

// The experts, then their weights.
void check_route(const Router& c) {
  std::mt19937 random(static_cast<uint32_t>(c.experts));
  const std::vector<bf16> x = bf16_normals(random, c.rows * c.dim);
  HostTensor<bf16> gate({c.experts, c.dim}, bf16_normals(random, c.experts * c.dim, 0.1f));
  HostTensor<float> bias({c.experts}, normals(random, c.experts));
  HostTensor<bf16> image_bias({c.experts}, bf16_normals(random, c.experts));
  std::vector<uint8_t> images(static_cast<size_t>(c.rows));
  for (size_t i = 0; i < images.size(); i += 3) images[i] = 1;
  for (bool weights : {false, true}) {
    check_rows(
        c.rows,
        [&](Ops& ops, int64_t first, int64_t count) {
          HostTensor<bf16> in({count, c.dim}, rows_of(x, first, count, c.dim));
          HostTensor<uint8_t> at({count}, rows_of(images, first, count, 1));
          HostTensor<int32_t> chosen({count, c.chosen});
          HostTensor<float> w({count, c.chosen});
          RouteParams p{in.view(), gate.view(), bias.view(), {}, {}, c.score, 2.5, chosen.ref(), w.ref()};
          if (c.images) {
            p.image_bias = image_bias.view();
            p.image_rows = at.view();
          }
          EXPECT_TRUE(ops.route(p).has_value());
          return weights ? w.values : std::vector<float>(chosen.values.begin(), chosen.values.end());
        },
        weights ? 1e-4 : 0);
  }
}

TEST(RowOps, Route) {
  for (RouterScore score : {RouterScore::sqrtsoftplus, RouterScore::sigmoid, RouterScore::softmax}) {
    check_route({score, 11, 256, 384, 6, true});
    check_route({score, 5, 64, 9, 2, false});
    check_route({score, 4, 32, 4, 1, true});
  }
}

TEST(RowOps, RouteSaysWhenAScoreIsNan) {
  HostTensor<bf16> x({1, 32});
  x.values[4] = to_bf16(nan);
  HostTensor<bf16> gate({8, 32});
  HostTensor<float> bias({8});
  HostTensor<int32_t> experts({1, 2});
  HostTensor<float> weights({1, 2});
  const auto ops = make_fast_cpu_ops(1);
  const Status done = ops->route(
      {x.view(), gate.view(), bias.view(), {}, {}, RouterScore::sigmoid, 1, experts.ref(), weights.ref()});
  ASSERT_FALSE(done.has_value());
}

}  // namespace
}  // namespace fathom::testing
