// Images in sequences: the same bits for any chunking and company, and what is refused (spec 5).
#include <gtest/gtest.h>

#include <random>

#include "tests/support/golden_image.h"

namespace fathom::testing {
namespace {

// A prompt and the images in it, for one model.
struct Prompt {
  std::vector<int32_t> ids;
  std::vector<ImagePlacement> images;

  SequenceRows rows(Sequence& sequence, size_t begin, size_t n) const {
    return {&sequence, std::span(ids).subspan(begin, n), static_cast<int64_t>(n), images};
  }
};

std::shared_ptr<const ImageEmbedding> golden_embedding(TinyModel& tiny) {
  return TinyModel::take(tiny.model().embed_image(GoldenImage().image));
}

Prompt golden_prompt(TinyModel& tiny) {
  const GoldenImagePrompt prompt;
  return {prompt.ids, {{prompt.begin(), golden_embedding(tiny)}}};
}

// Two images, the second behind the first without a token between, then text.
Prompt two_images(TinyModel& tiny) {
  Prompt prompt{random_ids(21, 5), {}};
  for (int i = 0; i < 2; ++i) {
    prompt.images.push_back({static_cast<int64_t>(prompt.ids.size()), golden_embedding(tiny)});
    prompt.ids.insert(prompt.ids.end(), static_cast<size_t>(prompt.images.back().image->tokens()),
                      static_cast<int32_t>(tiny.model().config().image_token_id));
  }
  const std::vector<int32_t> text = random_ids(22, 7);
  prompt.ids.insert(prompt.ids.end(), text.begin() + 1, text.end());
  return prompt;
}

std::vector<float> chunked(TinyModel& tiny, const Prompt& prompt, const std::vector<size_t>& cuts) {
  Sequence sequence = tiny.sequence();
  std::vector<float> all;
  size_t done = 0;
  for (size_t i = 0; done < prompt.ids.size(); ++i) {
    const size_t n = std::min(cuts[i % cuts.size()], prompt.ids.size() - done);
    const SequenceRows rows = prompt.rows(sequence, done, n);
    const Logits part = tiny.forward({&rows, 1});
    all.insert(all.end(), part.values.begin(), part.values.end());
    done += n;
  }
  return all;
}

std::vector<float> whole(TinyModel& tiny, const Prompt& prompt) {
  return chunked(tiny, prompt, {prompt.ids.size()});
}

TEST(ImageRows, EveryCutInTwo) {
  TinyModel tiny(1);
  const Prompt prompt = golden_prompt(tiny);
  const std::vector<float> want = whole(tiny, prompt);
  for (size_t cut = 1; cut < prompt.ids.size(); ++cut)
    EXPECT_EQ(chunked(tiny, prompt, {cut, prompt.ids.size()}), want) << cut;
}

TEST(ImageRows, ChunksWorkspacesAndThreads) {
  TinyModel tiny(1);
  const std::vector<float> want = whole(tiny, golden_prompt(tiny));
  for (const int threads : {1, 2, 3}) {
    TinyModel other(threads);
    const Prompt prompt = golden_prompt(other);
    for (const size_t chunk : {size_t{1}, size_t{7}, prompt.ids.size()})
      EXPECT_EQ(chunked(other, prompt, {chunk}), want) << threads << " threads, chunks of " << chunk;
  }
  for (const int64_t max_rows : {1, 5, 11, 16}) {
    TinyModel other(2, max_rows);
    EXPECT_EQ(whole(other, golden_prompt(other)), want) << max_rows;
  }
}

// Only the images that reach into a chunk need to be named.
TEST(ImageRows, TwoImagesSideBySide) {
  TinyModel tiny(2);
  const Prompt prompt = two_images(tiny);
  const std::vector<float> want = whole(tiny, prompt);
  EXPECT_EQ(chunked(tiny, prompt, {1}), want);
  EXPECT_EQ(chunked(tiny, prompt, {13, 3}), want);

  const auto second = static_cast<size_t>(prompt.images[1].first_position);
  Sequence sequence = tiny.sequence();
  SequenceRows rows = prompt.rows(sequence, 0, second);
  rows.images = rows.images.first(1);
  Logits logits = tiny.forward({&rows, 1});
  rows = prompt.rows(sequence, second, prompt.ids.size() - second);
  rows.images = rows.images.last(1);
  const Logits rest = tiny.forward({&rows, 1});
  logits.values.insert(logits.values.end(), rest.values.begin(), rest.values.end());
  EXPECT_EQ(logits.values, want);
}

// Prompts with and without images in one pass, at unlike positions.
TEST(ImageRows, Company) {
  TinyModel tiny(2, 40);
  const std::vector<Prompt> prompts = {
      {random_ids(1, 30), {}}, golden_prompt(tiny), {random_ids(2, 41), {}}, two_images(tiny)};
  std::vector<std::vector<float>> got(prompts.size());
  std::vector<size_t> done(prompts.size(), 0);
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < prompts.size(); ++i) sequences.push_back(tiny.sequence());
  std::mt19937 random(6);
  for (;;) {
    std::vector<SequenceRows> rows;
    std::vector<size_t> who;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const size_t n = std::min<size_t>(prompts[i].ids.size() - done[i], 1 + random() % 9);
      if (n == 0) continue;
      rows.push_back(prompts[i].rows(sequences[i], done[i], n));
      who.push_back(i);
      done[i] += n;
    }
    if (rows.empty()) break;
    const Logits logits = tiny.forward(rows);
    auto at = logits.values.begin();
    for (size_t k = 0; k < rows.size(); ++k) {
      const auto n = rows[k].num_logits * logits.vocab_size;
      got[who[k]].insert(got[who[k]].end(), at, at + n);
      at += n;
    }
  }
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(got[i], whole(tiny, prompts[i])) << i;
}

// Positions taken back and filled again, image rows among them.
TEST(ImageRows, Rewind) {
  TinyModel tiny(2);
  const Prompt prompt = golden_prompt(tiny);
  const std::vector<float> want = whole(tiny, prompt);
  const GoldenImagePrompt golden;
  for (const int64_t end : {golden.begin() + 2, golden.end() - 1, golden.end() + 3}) {
    Sequence sequence = tiny.sequence();
    const auto n = static_cast<size_t>(end);
    SequenceRows rows = prompt.rows(sequence, 0, n);
    tiny.forward({&rows, 1});
    sequence.rewind(5);
    rows = prompt.rows(sequence, n - 5, prompt.ids.size() - n + 5);
    const Logits logits = tiny.forward({&rows, 1});
    EXPECT_TRUE(std::equal(logits.values.begin(), logits.values.end(),
                           want.end() - static_cast<int64_t>(logits.values.size())))
        << end;
  }
}

// Without a placement the image token is a token like any other, and an image is told from it.
TEST(ImageRows, TheTokenAloneIsText) {
  TinyModel tiny(2);
  Prompt prompt = golden_prompt(tiny);
  const std::vector<float> with_image = whole(tiny, prompt);
  prompt.images.clear();
  const std::vector<float> text = whole(tiny, prompt);
  EXPECT_NE(text, with_image);
  Sequence sequence = tiny.sequence();
  EXPECT_EQ(tiny.forward(sequence, prompt.ids, static_cast<int64_t>(prompt.ids.size())).values, text);
}

TEST(ImageRows, RefusesPlacementsThatDoNotFit) {
  TinyModel tiny(1);
  const Prompt good = two_images(tiny);
  Sequence sequence = tiny.sequence();
  const auto error = [&](const Prompt& prompt, size_t n) {
    const SequenceRows rows = prompt.rows(sequence, static_cast<size_t>(sequence.length()), n);
    const int64_t before = sequence.length();
    const auto refused = tiny.model().forward(tiny.workspace(), {&rows, 1});
    if (refused) return std::string("none");
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(sequence.length(), before);
    EXPECT_FALSE(sequence.poisoned());
    return refused.error().message;
  };
  Prompt bad = good;
  bad.images[1].first_position -= 1;
  EXPECT_EQ(error(bad, 8), "an image at position 21, expected none before position 22");
  bad = good;
  std::swap(bad.images[0], bad.images[1]);
  EXPECT_EQ(error(bad, 8), "an image at position 5, expected none before position 39");
  bad = good;
  bad.images[0].first_position = -1;
  EXPECT_EQ(error(bad, 8), "an image at position -1, expected none before position 0");
  bad = good;
  bad.ids[7] = 9;
  EXPECT_EQ(error(bad, 8), "position 7 of an image: expected token 1016 (image_token_id), found 9");
  EXPECT_EQ(error(bad, 7), "none");  // what is wrong lies behind these rows
  EXPECT_EQ(error(bad, 1), "position 7 of an image: expected token 1016 (image_token_id), found 9");
  EXPECT_EQ(error(good, 10), "none");
}

}  // namespace
}  // namespace fathom::testing
