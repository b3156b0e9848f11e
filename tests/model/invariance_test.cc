// The same bits for any chunking, thread count and company (spec 1, Invariances), and after a rewind.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/compute_path.h"
#include "tests/support/golden.h"
#include "tests/support/tiny_model.h"

namespace fathom::testing {
namespace {

// All logits of `ids` in one pass by one thread: what everything else must equal, bit for bit.
std::vector<float> reference(TinyModel& tiny, const std::vector<int32_t>& ids) {
  Sequence sequence = tiny.sequence();
  return tiny.forward(sequence, ids, static_cast<int64_t>(ids.size())).values;
}

std::vector<float> chunked(TinyModel& tiny, const std::vector<int32_t>& ids,
                           const std::vector<size_t>& cuts) {
  Sequence sequence = tiny.sequence();
  std::vector<float> all;
  size_t done = 0;
  for (size_t i = 0; done < ids.size(); ++i) {
    const size_t n = std::min(cuts[i % cuts.size()], ids.size() - done);
    const Logits part = tiny.forward(sequence, std::span(ids).subspan(done, n), static_cast<int64_t>(n));
    all.insert(all.end(), part.values.begin(), part.values.end());
    done += n;
  }
  return all;
}

// Each on the exact path and on the fast one, with all instructions that there are.
class Invariance : public ::testing::TestWithParam<ComputePath> {};
INSTANTIATE_TEST_SUITE_P(Paths, Invariance, ::testing::ValuesIn(compute_paths()), path_name);

TEST_P(Invariance, Chunks) {
  TinyModel tiny(GetParam().ops(2));
  const std::vector<int32_t> ids = random_ids(7, 61);  // past the window of 16 and the ring of 24, odd
  const std::vector<float> want = reference(tiny, ids);
  for (const std::vector<size_t>& cuts :
       std::vector<std::vector<size_t>>{{1}, {2}, {3}, {7, 1, 13}, {16}, {17}, {24}, {25}, {60}})
    EXPECT_EQ(chunked(tiny, ids, cuts), want) << "first cut " << cuts[0];
}

TEST_P(Invariance, EveryCutInTwo) {
  TinyModel tiny(GetParam().ops(1));
  const std::vector<int32_t> ids = random_ids(8, 27);
  const std::vector<float> want = reference(tiny, ids);
  for (size_t cut = 1; cut < ids.size(); ++cut) EXPECT_EQ(chunked(tiny, ids, {cut, ids.size()}), want) << cut;
}

TEST_P(Invariance, WorkspaceSize) {
  TinyModel tiny(GetParam().ops(1));
  const std::vector<int32_t> ids = random_ids(9, 40);
  const std::vector<float> want = reference(tiny, ids);
  TinyModel small(GetParam().ops(1), 5);
  EXPECT_EQ(reference(small, ids), want);
}

TEST_P(Invariance, Threads) {
  const std::vector<int32_t> ids = random_ids(10, 33);
  TinyModel one(GetParam().ops(1));
  const std::vector<float> want = reference(one, ids);
  for (int threads : {2, 3, 5}) {
    TinyModel many(GetParam().ops(threads));
    EXPECT_EQ(reference(many, ids), want) << threads;
    EXPECT_EQ(chunked(many, ids, {1}), want) << threads;
  }
}

// Unlike sequences at unlike positions in one pass, some prefilling, some decoding.
TEST_P(Invariance, Company) {
  TinyModel tiny(GetParam().ops(2), 64);
  const std::vector<std::vector<int32_t>> prompts = {random_ids(1, 50), random_ids(2, 3), random_ids(3, 31),
                                                     random_ids(4, 18)};
  std::vector<std::vector<float>> want;
  for (const auto& ids : prompts) want.push_back(reference(tiny, ids));

  std::vector<Sequence> sequences;
  for (size_t i = 0; i < prompts.size(); ++i) sequences.push_back(tiny.sequence());
  std::vector<size_t> done(prompts.size(), 0);
  std::vector<std::vector<float>> got(prompts.size());
  std::mt19937 random(5);
  for (bool more = true; more;) {
    more = false;
    std::vector<SequenceRows> rows;
    std::vector<size_t> who;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const size_t left = prompts[i].size() - done[i];
      if (left == 0 || random() % 4 == 0) {
        more = more || left > 0;
        continue;
      }
      const size_t n = std::min<size_t>(left, 1 + random() % 20);
      rows.push_back({&sequences[i], std::span(prompts[i]).subspan(done[i], n), static_cast<int64_t>(n)});
      who.push_back(i);
      done[i] += n;
      more = true;
    }
    if (rows.empty()) continue;
    const Logits logits = tiny.forward(rows);
    auto at = logits.values.begin();
    for (size_t k = 0; k < rows.size(); ++k) {
      const auto n = static_cast<int64_t>(rows[k].ids.size()) * logits.vocab_size;
      got[who[k]].insert(got[who[k]].end(), at, at + n);
      at += n;
    }
  }
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(got[i], want[i]) << i;
}

// Positions taken back leave nothing behind: at every offset modulo the ratios and across the ring's wrap.
TEST_P(Invariance, Rewind) {
  TinyModel tiny(GetParam().ops(2));
  const std::vector<int32_t> ids = random_ids(11, 45);
  const std::vector<int32_t> wrong = random_ids(99, 9);
  const std::vector<float> want = reference(tiny, ids);
  Sequence sequence = tiny.sequence();
  std::vector<float> got;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto n = static_cast<int64_t>(i % (Sequence::max_rewind + 1));
    if (n > 0) {
      tiny.forward(sequence, std::span(wrong).subspan(1, static_cast<size_t>(n)), 0);
      sequence.rewind(n);
    }
    const Logits logits = tiny.forward(sequence, {&ids[i], 1}, 1);
    got.insert(got.end(), logits.values.begin(), logits.values.end());
  }
  EXPECT_EQ(got, want);
}

TEST_P(Invariance, FewerLogitsAreTheSameLogits) {
  TinyModel tiny(GetParam().ops(2), 7);
  const std::vector<int32_t> ids = random_ids(12, 20);
  const std::vector<float> all = reference(tiny, ids);
  for (int64_t n : {0, 1, 3, 9, 20}) {
    Sequence sequence = tiny.sequence();
    const Logits logits = tiny.forward(sequence, ids, n);
    EXPECT_EQ(logits.rows(), n);
    EXPECT_TRUE(std::equal(logits.values.begin(), logits.values.end(), all.end() - n * logits.vocab_size));
  }
}

TEST(Sequence, BytesAreThoseOfTheLayout) {
  TinyModel tiny(1);
  Sequence sequence = tiny.sequence();
  EXPECT_EQ(sequence.bytes(), Sequence::bytes_for(tiny.model().config(), 0, false));
  const std::vector<int32_t> ids = random_ids(13, 300);
  tiny.forward(sequence, ids, 0);
  EXPECT_EQ(sequence.length(), 300);
  EXPECT_EQ(sequence.bytes(), Sequence::bytes_for(tiny.model().config(), 300, false));
}

TEST(Sequence, RefusesWhatDoesNotFit) {
  TinyModel tiny(1);
  Sequence sequence = tiny.sequence();
  const int32_t bad = 1024;
  SequenceRows rows{&sequence, {&bad, 1}, 1};
  const Result<Logits> refused = tiny.model().forward(tiny.workspace(), {&rows, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "token id 1024: expected 0 to 1023");
  const std::vector<int32_t> long_ids(4097, 5);
  rows.ids = long_ids;
  const Result<Logits> too_long = tiny.model().forward(tiny.workspace(), {&rows, 1});
  ASSERT_FALSE(too_long);
  EXPECT_NE(too_long.error().message.find("4097 positions, expected at most the model's context of 4096"),
            std::string::npos);
  EXPECT_EQ(sequence.length(), 0);
  EXPECT_FALSE(sequence.poisoned());
}

}  // namespace
}  // namespace fathom::testing
