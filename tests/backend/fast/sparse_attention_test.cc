// Attention against the exact path's, for every Isa and some thread counts; a row alone gives its bits.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backend/cpu/cpu_ops.h"
#include "backend/fast/fast_ops.h"
#include "tensor/cache_layout.h"
#include "tests/support/tensors.h"

namespace fathom {
namespace {

using testing::as_floats;
using testing::bf16_tensor;
using testing::HostTensor;

struct Case {
  int64_t heads = 2, dim = 64, rope_dim = 32;
  std::vector<RowSpan> spans;
  int64_t window = 16;
  bool block = false;
  int64_t topk = 0;  // 0: no compressed keys
  int64_t ratio = 1;
  float scale = 1;  // of queries: larger ones make the softmax sharper
};

struct Inputs {
  int64_t rows = 0;
  HostTensor<bf16> q{{0}};
  HostTensor<uint8_t> records{{0}};
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::vector<std::byte*>> blocks;
  std::vector<RingView> rings;
  std::vector<RecordsView> compressed;
  HostTensor<int32_t> picked{{0}};
  HostTensor<int32_t> num_picked{{0}};
  HostTensor<float> sink{{0}};
  HostTensor<int32_t> positions{{0}};
  HostTensor<float> freqs{{0}};
};

std::vector<float> normals(std::mt19937& random, int64_t n, float scale = 1) {
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(n));
  for (float& v : out) v = round_bf16(normal(random) * scale);
  return out;
}

void fill_picked(std::mt19937& random, int64_t row, int64_t visible, Inputs& in) {
  const int64_t topk = in.picked.shape[1];
  int64_t n = 0;
  for (int64_t j = 0; j < visible && n < topk; ++j)
    if (random() % 4 != 0) in.picked.values[static_cast<size_t>(row * topk + n++)] = static_cast<int32_t>(j);
  in.num_picked.values[static_cast<size_t>(row)] = static_cast<int32_t>(n);
}

Inputs make_inputs(const Case& c, uint32_t seed) {
  std::mt19937 random(seed);
  Inputs in;
  for (const RowSpan& s : c.spans) in.rows = std::max(in.rows, s.first_row + s.num_rows);
  in.q = bf16_tensor({in.rows, c.heads, c.dim}, normals(random, in.rows * c.heads * c.dim, c.scale));
  in.sink = HostTensor<float>({c.heads}, normals(random, c.heads));
  in.positions = HostTensor<int32_t>({in.rows});
  in.freqs = HostTensor<float>({c.rope_dim / 2});
  for (size_t i = 0; i < in.freqs.values.size(); ++i)
    in.freqs.values[i] = std::pow(1000.0f, -static_cast<float>(i) / 8);
  const int64_t window_bytes = window_record(c.dim).bytes();
  const int64_t compressed_bytes = compressed_record(c.dim).bytes();
  in.records = HostTensor<uint8_t>({in.rows, window_bytes});
  for (int64_t r = 0; r < in.rows; ++r)
    pack_window(normals(random, c.dim).data(), c.dim,
                reinterpret_cast<std::byte*>(in.records.values.data()) + r * window_bytes);
  in.picked = HostTensor<int32_t>({in.rows, std::max<int64_t>(c.topk, 1)});
  in.num_picked = HostTensor<int32_t>({in.rows});
  for (const RowSpan& s : c.spans) {
    const int64_t slots = c.window + 3;
    in.memory.emplace_back(static_cast<size_t>(slots * window_bytes));
    for (int64_t i = 0; i < slots; ++i)
      pack_window(normals(random, c.dim).data(), c.dim, in.memory.back().data() + i * window_bytes);
    in.rings.push_back({in.memory.back().data(), slots});
    constexpr int64_t per_block = 32;
    const int64_t groups = s.end_position() / c.ratio;
    const int64_t blocks = groups / per_block + 1;
    in.memory.emplace_back(static_cast<size_t>(blocks * per_block * compressed_bytes));
    for (int64_t i = 0; i < groups; ++i)
      pack_compressed(normals(random, c.dim).data(), c.dim, in.memory.back().data() + i * compressed_bytes);
    in.blocks.emplace_back();
    for (int64_t b = 0; b < blocks; ++b)
      in.blocks.back().push_back(in.memory.back().data() + b * per_block * compressed_bytes);
    for (int64_t i = 0; i < s.num_rows; ++i) {
      in.positions.values[static_cast<size_t>(s.first_row + i)] = static_cast<int32_t>(s.first_position + i);
      if (c.topk > 0) fill_picked(random, s.first_row + i, (s.first_position + i + 1) / c.ratio, in);
    }
  }
  if (c.topk > 0)
    for (const auto& b : in.blocks) in.compressed.push_back({b, 32});
  return in;
}

HostTensor<bf16> attend(Ops& ops, const Case& c, const Inputs& in) {
  HostTensor<bf16> out({in.rows, c.heads, c.dim});
  ops.sparse_attention({.q = in.q.view(),
                        .window_records = in.records.view(),
                        .spans = c.spans,
                        .rings = in.rings,
                        .window_size = c.window,
                        .block = c.block,
                        .compressed = in.compressed,
                        .picked = in.picked.view(),
                        .num_picked = in.num_picked.view(),
                        .sink = in.sink.view(),
                        .positions = in.positions.view(),
                        .freqs = in.freqs.view(),
                        .out = out.ref()});
  return out;
}

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return size == 0 ? difference : std::sqrt(difference / size);
}

void check(const Case& c, uint32_t seed) {
  const Inputs in = make_inputs(c, seed);
  const std::vector<float> expected = as_floats(attend(*make_exact_cpu_ops(2), c, in));
  for (Isa isa : available_isas()) {
    const HostTensor<bf16> first = attend(*make_fast_cpu_ops(1, isa), c, in);
    EXPECT_LE(relative_error(as_floats(first), expected), 4e-3) << isa_name(isa) << ", seed " << seed;
    for (int threads : {2, 3})
      EXPECT_EQ(attend(*make_fast_cpu_ops(threads, isa), c, in).values, first.values)
          << isa_name(isa) << ", seed " << seed << ", threads " << threads;
  }
}

TEST(FastSparseAttention, ShapesAndNumbersOfKeys) {
  uint32_t seed = 1;
  for (int64_t heads : {1, 2, 9, 64})
    for (int64_t dim : {32, 64, 96, 512}) {
      const int64_t rope = std::min<int64_t>(dim, 64);
      check({.heads = heads, .dim = dim, .rope_dim = rope, .spans = {{0, 1, 0}}}, ++seed);
      check({.heads = heads, .dim = dim, .rope_dim = rope, .spans = {{0, 3, 200}}, .window = 33, .topk = 50},
            ++seed);
    }
  for (int64_t keys : {1, 2, 15, 16, 17, 31, 32, 33, 127, 128, 129, 255, 257, 300})
    check({.spans = {{0, 1, keys - 1}}, .window = keys}, ++seed);
}

TEST(FastSparseAttention, ReleasedShape) {
  for (float scale : {0.1f, 1.0f, 8.0f})
    check({.heads = 64,
           .dim = 512,
           .rope_dim = 64,
           .spans = {{0, 2, 1000}},
           .window = 128,
           .topk = 512,
           .scale = scale},
          7);
}

TEST(FastSparseAttention, SpansBlocksAndRatios) {
  uint32_t seed = 100;
  check({.spans = {}}, ++seed);
  check({.spans = {{0, 20, 0}}, .topk = 8, .ratio = 2}, ++seed);
  check({.spans = {{0, 7, 90}, {7, 1, 0}, {8, 12, 15}}, .topk = 40, .ratio = 2}, ++seed);
  check({.spans = {{0, 6, 90}, {6, 6, 3}}, .block = true}, ++seed);
  check({.heads = 16, .spans = {{0, 6, 90}, {6, 5, 0}}, .window = 128, .block = true}, ++seed);
}

TEST(FastSparseAttention, ARowAloneGivesItsBits) {
  const Case c{.heads = 9, .spans = {{0, 12, 150}}, .window = 60, .topk = 100};
  const Inputs in = make_inputs(c, 200);
  for (Isa isa : available_isas()) {
    const auto ops = make_fast_cpu_ops(2, isa);
    const HostTensor<bf16> all = attend(*ops, c, in);
    for (int64_t r = 0; r < in.rows; ++r) {
      Case one = c;
      one.spans = {{0, 1, 150 + r}};
      Inputs row = in;
      row.rows = 1;
      const auto part = [&](auto& t, const auto& from, Shape shape) {
        const auto n = static_cast<int64_t>(from.values.size()) / in.rows;
        t.shape = shape;
        t.values.assign(from.values.begin() + r * n, from.values.begin() + (r + 1) * n);
      };
      part(row.q, in.q, {1, c.heads, c.dim});
      part(row.records, in.records, {1, in.records.shape[1]});
      part(row.picked, in.picked, {1, c.topk});
      part(row.num_picked, in.num_picked, {1});
      part(row.positions, in.positions, {1});
      // The rows before it are in the ring now.
      std::vector<std::byte> ring = in.memory[0];
      const int64_t bytes = window_record(c.dim).bytes();
      const int64_t slots = in.rings[0].slots;
      for (int64_t i = 0; i < r; ++i)
        std::copy_n(reinterpret_cast<const std::byte*>(in.records.values.data()) + i * bytes, bytes,
                    ring.data() + (150 + i) % slots * bytes);
      row.rings = {{ring.data(), slots}};
      const HostTensor<bf16> alone = attend(*ops, one, row);
      const auto n = static_cast<int64_t>(alone.values.size());
      EXPECT_TRUE(std::equal(alone.values.begin(), alone.values.end(), all.values.begin() + r * n))
          << isa_name(isa) << " row " << r;
    }
  }
}

// A NaN in a query, a sink, a window record or a compressed one is seen wherever the exact path sees it.
TEST(FastSparseAttention, BadNumbersStayBad) {
  const Case c{.heads = 3, .spans = {{0, 4, 40}}, .topk = 30};
  for (int what = 0; what < 6; ++what) {
    Inputs in = make_inputs(c, 300);
    if (what == 0) in.q.values[5] = {0x7FC0};
    if (what == 1) in.sink.values[1] = NAN;
    if (what == 2) in.records.values[7] = e4m3_nan;
    if (what == 3) in.records.values[static_cast<size_t>(c.dim + 1)] = e8m0_nan;
    if (what == 4) in.blocks[0][0][c.dim / 2] = std::byte{e4m3_nan};
    if (what == 5) in.q.values[5] = {0x7F80};
    const std::vector<float> expected = as_floats(attend(*make_exact_cpu_ops(1), c, in));
    for (Isa isa : available_isas()) {
      const std::vector<float> found = as_floats(attend(*make_fast_cpu_ops(2, isa), c, in));
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_EQ(std::isnan(found[i]), std::isnan(expected[i]))
            << isa_name(isa) << " " << what << " at " << i;
    }
  }
}

// Extreme sinks: the weights vanish, or the sink does.
TEST(FastSparseAttention, ExtremeSinks) {
  const Case c{.heads = 3, .spans = {{0, 2, 40}}};
  for (float sink : {-INFINITY, -200.0f, 30.0f, 3e38f, INFINITY}) {
    Inputs in = make_inputs(c, 400);
    in.sink.values = {sink, 0.5f, sink};
    const std::vector<float> expected = as_floats(attend(*make_exact_cpu_ops(1), c, in));
    for (Isa isa : available_isas())
      EXPECT_LE(relative_error(as_floats(attend(*make_fast_cpu_ops(1, isa), c, in)), expected), 4e-3)
          << isa_name(isa) << " " << sink;
  }
}

}  // namespace
}  // namespace fathom
