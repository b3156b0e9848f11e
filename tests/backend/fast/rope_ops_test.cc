// Rotations, records and pooling against the exact ones.
#include <gtest/gtest.h>

#include "tensor/cache_layout.h"
#include "tests/backend/fast/row_check.h"

namespace fathom::testing {
namespace {

HostTensor<float> frequencies(int64_t pairs) {
  HostTensor<float> freqs({pairs});
  for (int64_t i = 0; i < pairs; ++i)
    freqs.values[static_cast<size_t>(i)] =
        static_cast<float>(1 / std::pow(10000.0, static_cast<double>(i) / static_cast<double>(pairs)));
  return freqs;
}

std::vector<int32_t> positions_of(int64_t rows) {
  std::vector<int32_t> out = {0, 1, 1048575, 77777, 5000000, 2147483647};  // the last ones past the tables
  while (static_cast<int64_t>(out.size()) < rows) out.push_back(static_cast<int32_t>(out.size() * 997));
  out.resize(static_cast<size_t>(rows));
  return out;
}

struct Heads {
  int64_t rows, heads, dim, pairs;
};

TEST(RopeOps, Rope) {
  for (const Heads& h : {Heads{9, 64, 512, 32},
                         {7, 3, 64, 8},
                         {6, 2, 96, 48},
                         {6, 1, 32, 3},
                         {6, 5, 64, 20},
                         {6, 2, 64, 16}}) {
    std::mt19937 random(static_cast<uint32_t>(h.dim));
    std::vector<bf16> x = bf16_normals(random, h.rows * h.heads * h.dim);
    x[static_cast<size_t>(h.dim) - 1] = to_bf16(NAN);
    const std::vector<int32_t> positions = positions_of(h.rows);
    const HostTensor<float> freqs = frequencies(h.pairs);
    check_rows(h.rows, [&](Ops& ops, int64_t first, int64_t count) {
      HostTensor<int32_t> at({count}, rows_of(positions, first, count, 1));
      HostTensor<bf16> out({count, h.heads, h.dim}, rows_of(x, first, count, h.heads * h.dim));
      ops.rope({out.ref(), at.view(), freqs.view()});
      return floats(out.values);
    });
  }
}

TEST(RopeOps, IndexQuery) {
  for (const Heads& h : {Heads{9, 32, 128, 32}, {7, 2, 32, 8}, {6, 3, 64, 32}}) {
    std::mt19937 random(static_cast<uint32_t>(h.dim));
    const std::vector<bf16> x = bf16_normals(random, h.rows * h.heads * h.dim);
    const std::vector<int32_t> positions = positions_of(h.rows);
    const HostTensor<float> freqs = frequencies(h.pairs);
    check_rows(h.rows, [&](Ops& ops, int64_t first, int64_t count) {
      HostTensor<int32_t> at({count}, rows_of(positions, first, count, 1));
      HostTensor<bf16> out({count, h.heads, h.dim}, rows_of(x, first, count, h.heads * h.dim));
      ops.index_query({out.ref(), at.view(), freqs.view()});
      return floats(out.values);
    });
  }
}

std::vector<float> unpacked(const std::vector<uint8_t>& records, int64_t dim, int64_t bytes,
                            void (*unpack)(const std::byte*, int64_t, float*)) {
  std::vector<float> out(records.size() / static_cast<size_t>(bytes) * static_cast<size_t>(dim));
  for (size_t r = 0; r < records.size() / static_cast<size_t>(bytes); ++r)
    unpack(reinterpret_cast<const std::byte*>(records.data()) + static_cast<int64_t>(r) * bytes, dim,
           out.data() + static_cast<int64_t>(r) * dim);
  return out;
}

TEST(RopeOps, PackWindow) {
  for (const Heads& h : {Heads{70, 1, 512, 32}, {7, 1, 32, 8}, {6, 1, 96, 5}}) {
    std::mt19937 random(static_cast<uint32_t>(h.dim));
    const std::vector<bf16> x = bf16_normals(random, h.rows * h.dim);
    const std::vector<int32_t> positions = positions_of(h.rows);
    const HostTensor<float> freqs = frequencies(h.pairs);
    const int64_t bytes = window_record(h.dim).bytes();
    check_rows(h.rows, [&](Ops& ops, int64_t first, int64_t count) {
      HostTensor<int32_t> at({count}, rows_of(positions, first, count, 1));
      HostTensor<bf16> kv({count, h.dim}, rows_of(x, first, count, h.dim));
      HostTensor<uint8_t> records({count, bytes});
      ops.pack_window({kv.view(), at.view(), freqs.view(), records.ref()});
      return unpacked(records.values, h.dim, bytes, unpack_window);
    });
  }
}

void check_store_records(StoreRecordsParams::Kind kind, const Heads& h) {
  const bool index = kind == StoreRecordsParams::Kind::index_key;
  std::mt19937 random(static_cast<uint32_t>(h.dim));
  const std::vector<bf16> x = bf16_normals(random, h.rows * h.dim);
  const HostTensor<float> freqs = frequencies(h.pairs);
  const int64_t bytes = (index ? index_record(h.dim) : compressed_record(h.dim)).bytes();
  check_rows(h.rows, [&](Ops& ops, int64_t first, int64_t count) {
    HostTensor<bf16> values({count, h.dim}, rows_of(x, first, count, h.dim));
    HostTensor<uint8_t> storage({3 + h.rows, bytes});
    std::vector<std::byte*> blocks;  // of one record each, groups from 3 on
    for (int64_t i = 0; i < 3 + h.rows; ++i) blocks.push_back(storage.ref().data + i * bytes);
    const GroupSpan span{3 + first, count, 0};
    const RecordsView records{blocks, 1};
    ops.store_records({kind, values.view(), 2, {&span, 1}, {&records, 1}, freqs.view()});
    return unpacked(rows_of(storage.values, 3 + first, count, bytes), h.dim, bytes,
                    index ? unpack_index : unpack_compressed);
  });
}

TEST(RopeOps, StoreRecords) {
  for (const Heads& h : {Heads{9, 1, 512, 32}, {7, 1, 32, 8}, {6, 1, 128, 32}}) {
    check_store_records(StoreRecordsParams::Kind::compressed_kv, h);
    check_store_records(StoreRecordsParams::Kind::index_key, h);
  }
}

// Groups that begin in the ring and in the batch; a row here is a group.
void check_pool(int64_t ratio, int64_t dim, float spread) {
  std::mt19937 random(static_cast<uint32_t>(dim));
  constexpr int64_t groups = 5;
  const int64_t before = ratio - 1;  // positions in the ring
  const int64_t rows = groups * ratio - before;
  const std::vector<float> kv = normals(random, rows * dim);
  const std::vector<float> score = normals(random, rows * dim, spread);
  const std::vector<float> old = normals(random, ratio * 2 * dim, spread);
  const auto exact = make_exact_cpu_ops(1);
  const auto run = [&](Ops& ops, std::vector<float>* ring) {
    HostTensor<float> k({rows, dim}, std::vector<float>(kv));
    HostTensor<float> s({rows, dim}, std::vector<float>(score));
    HostTensor<float> open({ratio, 2, dim}, std::vector<float>(old));
    HostTensor<bf16> out({groups, dim});
    const RowSpan span{0, rows, before};
    const GroupSpan group{0, groups, 0};
    const RingView view{open.ref().data, ratio};
    ops.pool_groups({k.view(), s.view(), ratio, {&span, 1}, {&group, 1}, {&view, 1}, out.ref()});
    *ring = open.values;
    return floats(out.values);
  };
  std::vector<float> expected_ring;
  const std::vector<float> expected = run(*exact, &expected_ring);
  for (Isa isa : available_isas()) {
    std::vector<float> first;
    for (int threads : {1, 2, 3}) {
      const auto fast = make_fast_cpu_ops(threads, isa);
      std::vector<float> ring;
      const std::vector<float> actual = run(*fast, &ring);
      EXPECT_LE(relative_error(actual, expected), 4e-3);
      EXPECT_EQ(bits_of(ring), bits_of(expected_ring));
      if (threads == 1) first = actual;
      EXPECT_EQ(bits_of(actual), bits_of(first));
    }
  }
}

TEST(RopeOps, PoolGroups) {
  for (int64_t ratio : {1, 2, 4, 7})
    for (int64_t dim : {32, 40, 512}) check_pool(ratio, dim, ratio == 4 ? 100.0f : 2.0f);
}

}  // namespace
}  // namespace fathom::testing
