// Drafting on the tiny golden checkpoint: golden drafts, company, depths, and nothing left behind.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "tests/support/checkpoint_builder.h"
#include "tests/support/compute_path.h"
#include "tests/support/golden.h"
#include "tests/support/tiny_model.h"

namespace fathom::testing {
namespace {

struct Drafts {
  std::vector<int32_t> ids;
  std::vector<float> logits;  // [depth, vocab]
  std::vector<float> confidence;
  bool operator==(const Drafts&) const = default;
};

// Greedy drafts for several sequences together.
std::vector<Drafts> draft(TinyModel& tiny, std::span<const DraftRequest> requests, int64_t depth) {
  const Model& model = tiny.model();
  DraftBlock block = TinyModel::take(model.begin_draft(tiny.workspace(), requests, depth));
  std::vector<Drafts> out(requests.size());
  std::vector<int32_t> previous;
  for (const DraftRequest& r : requests) previous.push_back(r.token);
  for (int64_t i = 0; i < depth; ++i) {
    const DraftStep step = TinyModel::take(model.next_draft(block, previous));
    for (size_t q = 0; q < requests.size(); ++q) {
      const auto row = step.row(static_cast<int64_t>(q));
      previous[q] = argmax(row);
      out[q].ids.push_back(previous[q]);
      out[q].logits.insert(out[q].logits.end(), row.begin(), row.end());
      out[q].confidence.push_back(step.confidence[q]);
    }
  }
  return out;
}

Drafts draft(TinyModel& tiny, Sequence& sequence, int32_t token, int64_t depth = 5) {
  const DraftRequest request{&sequence, token};
  return draft(tiny, {&request, 1}, depth).front();
}

void expect_near(std::span<const float> got, std::span<const float> want, size_t step) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 1e-5 * std::fabs(want[i]) + 1e-6) << "step " << step << ", value " << i;
}

TEST(Draft, GoldenSteps) {
  TinyModel tiny(2);
  const Golden golden("tiny/golden/prompt_48.safetensors");
  const std::vector<int32_t> ids = golden.values<int32_t>("input_ids");
  const std::vector<int32_t> greedy = golden.values<int32_t>("greedy");
  const std::vector<int32_t> want_ids = golden.values<int32_t>("draft_ids");
  const std::vector<float> want_logits = golden.floats("draft_logits");
  const std::vector<float> want_confidence = golden.floats("draft_confidence");
  Sequence sequence = tiny.sequence(true);
  tiny.forward(sequence, ids, 0);
  const size_t vocab = 1024;
  std::vector<int32_t> got_ids;
  double worst = 0;
  for (size_t step = 0; step < greedy.size(); ++step) {
    const Drafts got = draft(tiny, sequence, greedy[step]);
    got_ids.insert(got_ids.end(), got.ids.begin(), got.ids.end());
    const auto logits = std::span(want_logits).subspan(step * 5 * vocab, 5 * vocab);
    expect_near(got.logits, logits, step);
    for (size_t i = 0; i < logits.size(); ++i)
      worst = std::max(worst, std::fabs(static_cast<double>(got.logits[i]) - static_cast<double>(logits[i])));
    expect_near(got.confidence, std::span(want_confidence).subspan(step * 5, 5), step);
    tiny.forward(sequence, {&greedy[step], 1}, 0);
  }
  EXPECT_EQ(got_ids, want_ids);
  RecordProperty("worst_logit_difference", std::to_string(worst));
}

// However the positions came: at once, one by one, in any workspace, with positions taken back in between.
TEST(Draft, DependsOnTheTokensAlone) {
  TinyModel tiny(2);
  TinyModel small(1, 3);  // a workspace smaller than a block
  const std::vector<int32_t> ids = random_ids(5, 60);
  const std::vector<int32_t> wrong = random_ids(77, 10);
  Sequence stepped = tiny.sequence(true);
  Sequence rewound = small.sequence(true);
  for (size_t n = 1; n < ids.size(); ++n) {
    tiny.forward(stepped, std::span(ids).subspan(n - 1, 1), 0);
    small.forward(rewound, std::span(ids).subspan(n - 1, 1), 0);
    const auto back = n % (Sequence::max_rewind + 1);
    if (back > 0) {
      small.forward(rewound, std::span(wrong).first(back), 0);
      rewound.rewind(static_cast<int64_t>(back));
    }
    const Drafts want = draft(tiny, stepped, ids[n]);
    EXPECT_EQ(draft(small, rewound, ids[n]), want) << n;
    if (n % 7 != 0) continue;
    Sequence whole = tiny.sequence(true);
    tiny.forward(whole, std::span(ids).first(n), 0);
    EXPECT_EQ(draft(tiny, whole, ids[n]), want) << n;
  }
}

// Nothing drafted enters the windows, not even of a block that is longer than the ring's spare slots.
TEST(Draft, LeavesTheWindowsAlone) {
  const std::string tiny_directory = std::string(FATHOM_SOURCE_DIR) + "/tests/golden/tiny/model";
  const test::TempDir directory;
  for (const auto& entry : std::filesystem::directory_iterator(tiny_directory))
    std::filesystem::create_symlink(entry.path(), directory / entry.path().filename().string());
  std::string config = test::read_all(tiny_directory + "/config.json");
  const std::string key = "\"dspark_block_size\": 5";
  ASSERT_NE(config.find(key), std::string::npos);
  config.replace(config.find(key), key.size(), "\"dspark_block_size\": 16");
  std::filesystem::remove(directory / "config.json");
  test::write_file(directory / "config.json", config);
  TinyModel tiny(2, 64, directory.path().string());
  const std::vector<int32_t> ids = random_ids(9, 40);
  Sequence drafted = tiny.sequence(true);
  Sequence fresh = tiny.sequence(true);
  tiny.forward(drafted, ids, 0);
  tiny.forward(fresh, ids, 0);
  const Drafts want = draft(tiny, fresh, 7, 16);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(draft(tiny, drafted, 7, 16), want) << i;
}

TEST(Draft, LessDepthIsTheBeginningOfMore) {
  TinyModel tiny(2);
  Sequence sequence = tiny.sequence(true);
  tiny.forward(sequence, random_ids(6, 30), 0);
  const Drafts all = draft(tiny, sequence, 9);
  for (int64_t depth = 1; depth < 5; ++depth) {
    const Drafts some = draft(tiny, sequence, 9, depth);
    EXPECT_TRUE(std::equal(some.logits.begin(), some.logits.end(), all.logits.begin())) << depth;
    EXPECT_EQ(some.confidence, std::vector<float>(all.confidence.begin(), all.confidence.begin() + depth));
  }
}

TEST(Draft, Company) {
  TinyModel tiny(2, 16);  // three blocks at once
  std::vector<Sequence> sequences;
  std::vector<DraftRequest> requests;
  for (uint32_t i = 0; i < 5; ++i) sequences.push_back(tiny.sequence(true));
  for (uint32_t i = 0; i < 5; ++i) {
    tiny.forward(sequences[i], random_ids(20 + i, 1 + 13 * static_cast<int64_t>(i)), 0);
    requests.push_back({&sequences[i], static_cast<int32_t>(100 + i)});
  }
  const std::vector<Drafts> together = draft(tiny, requests, 5);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(together[i], draft(tiny, sequences[i], requests[i].token)) << i;
}

// The main model's logits do not know whether a sequence drafts, drafted, or shares a pass with one that
// does.
TEST(Draft, LeavesTheMainModelAlone) {
  TinyModel tiny(2);
  const std::vector<int32_t> ids = random_ids(8, 41);
  Sequence plain = tiny.sequence();
  Sequence drafting = tiny.sequence(true);
  for (size_t n = 0; n + 1 < ids.size(); ++n) {
    const SequenceRows rows[] = {{&plain, std::span(ids).subspan(n, 1), 1},
                                 {&drafting, std::span(ids).subspan(n, 1), 1}};
    const Logits logits = tiny.forward(rows);
    ASSERT_TRUE(std::equal(logits.row(0).begin(), logits.row(0).end(), logits.row(1).begin())) << n;
    draft(tiny, drafting, ids[n + 1]);
  }
}

// Four sequences decode in one batch; every pass verifies another number of drafts of each, of which another
// number is right. Logits and the next drafts are those of sequences that never drafted, bit for bit.
class DraftOnPath : public ::testing::TestWithParam<ComputePath> {};
INSTANTIATE_TEST_SUITE_P(Paths, DraftOnPath, ::testing::ValuesIn(compute_paths()), path_name);

TEST_P(DraftOnPath, BatchRejectsAtDifferentDepths) {
  TinyModel tiny(GetParam().ops(2), 64);
  const size_t vocab = 1024;
  struct One {
    std::vector<int32_t> ids;   // known in advance
    std::vector<float> logits;  // after each of them
    Sequence drafting, plain;
    size_t length;  // positions in both sequences
  };
  std::vector<One> all;
  for (uint32_t i = 0; i < 4; ++i) {
    One one{random_ids(40 + i, 60), {}, tiny.sequence(true), tiny.sequence(true), 1 + 5 * i};
    Sequence whole = tiny.sequence();
    one.logits = tiny.forward(whole, one.ids, 60).values;
    tiny.forward(one.drafting, std::span(one.ids).first(one.length), 0);
    tiny.forward(one.plain, std::span(one.ids).first(one.length), 0);
    all.push_back(std::move(one));
  }
  std::mt19937 random(3);
  for (int pass = 0; pass < 12; ++pass) {
    std::vector<std::vector<int32_t>> ids;
    std::vector<size_t> kept;
    std::vector<SequenceRows> rows;
    for (const One& one : all) {
      const size_t most = std::min<size_t>(8, one.ids.size() - one.length - 2);
      const size_t drafts = random() % (most + 1);
      kept.push_back(1 + random() % (drafts + 1));
      ids.emplace_back(one.ids.begin() + static_cast<int64_t>(one.length),
                       one.ids.begin() + static_cast<int64_t>(one.length + 1 + drafts));
      for (size_t k = kept.back(); k < ids.back().size(); ++k) ids.back()[k] = 1003 - ids.back()[k];
    }
    for (size_t i = 0; i < all.size(); ++i)
      rows.push_back({&all[i].drafting, ids[i], static_cast<int64_t>(ids[i].size())});
    const Logits got = tiny.forward(rows);
    std::vector<DraftRequest> requests, plain_requests;
    int64_t row = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      One& one = all[i];
      const auto want = std::span(one.logits).subspan(one.length * vocab, kept[i] * vocab);
      EXPECT_TRUE(std::equal(want.begin(), want.end(), got.row(row).begin())) << pass << " " << i;
      row += static_cast<int64_t>(ids[i].size());
      one.drafting.rewind(static_cast<int64_t>(ids[i].size() - kept[i]));
      tiny.forward(one.plain, std::span(ids[i]).first(kept[i]), 0);
      one.length += kept[i];
      requests.push_back({&one.drafting, one.ids[one.length]});
      plain_requests.push_back({&one.plain, one.ids[one.length]});
    }
    EXPECT_EQ(draft(tiny, requests, 5), draft(tiny, plain_requests, 5)) << pass;
  }
}

TEST(Draft, BytesAreThoseOfTheLayout) {
  TinyModel tiny(1);
  Sequence sequence = tiny.sequence(true);
  EXPECT_EQ(sequence.bytes(), Sequence::bytes_for(tiny.model().config(), 0, true));
  EXPECT_GT(sequence.bytes(), tiny.sequence().bytes());
}

}  // namespace
}  // namespace fathom::testing
