// Images in prompts: places, positions, and when a held prefix may be kept.
#include "engine/prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/generator.h"
#include "tests/engine/fake_model.h"

namespace fathom {
namespace {

using testing::ElementsAre;
using Image = std::shared_ptr<const ImageEmbedding>;

/// An image of so many positions, without rows: the engine never looks at them.
Image image(int64_t tokens, uint8_t identity) {
  ImageEmbedding out;
  out.identity = ImageIdentity({identity});
  out.rows.shape = Shape{tokens, 1};
  return std::make_shared<const ImageEmbedding>(std::move(out));
}

TEST(PlaceImages, EachTakesItsPositions) {
  const std::vector<int32_t> ids = {1, 9, 2, 9, 9, 3};
  const std::vector<Image> images = {image(3, 1), image(4, 2), image(3, 3)};
  const Result<Prompt> prompt = place_images(ids, images, 9);
  ASSERT_TRUE(prompt);
  EXPECT_THAT(prompt->ids, ElementsAre(1, 9, 9, 9, 2, 9, 9, 9, 9, 9, 9, 9, 3));
  ASSERT_EQ(prompt->images.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(prompt->images[i].image, images[i]);
  EXPECT_EQ(prompt->images[0].first_position, 1);
  EXPECT_EQ(prompt->images[1].first_position, 5);
  EXPECT_EQ(prompt->images[2].first_position, 9);
}

TEST(PlaceImages, RefusesAnotherNumber) {
  const std::vector<int32_t> ids = {1, 9, 2};
  for (const std::vector<Image>& images : {std::vector<Image>{}, {image(3, 1), image(3, 2)}}) {
    const Result<Prompt> refused = place_images(ids, images, 9);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(refused.error().message,
              "expected as many images as the prompt has places for them (1), found " +
                  std::to_string(images.size()));
  }
}

TEST(SameImages, LooksAtPlacesAndIdentitiesBeforeTheEnd) {
  const std::vector<ImagePlacement> a = {{1, image(3, 1)}, {8, image(3, 2)}};
  const std::vector<ImagePlacement> other = {{1, image(3, 1)}, {8, image(3, 3)}};
  const std::vector<ImagePlacement> moved = {{1, image(3, 1)}, {9, image(3, 2)}};
  const std::vector<ImagePlacement> fewer = {{1, image(3, 1)}};
  EXPECT_TRUE(same_images(a, {{{1, image(3, 1)}, {8, image(3, 2)}}}, 100));
  for (const auto& b : {other, moved, fewer}) {
    EXPECT_FALSE(same_images(a, b, 100));
    EXPECT_FALSE(same_images(b, a, 9));
    EXPECT_TRUE(same_images(a, b, 8));
  }
}

// The ids of an image say nothing about which one it is.
TEST(Generator, KeepsAPrefixOnlyWithItsImages) {
  FakeModel model(8, 100, [](const auto&) { return 3; });
  Generator generator(model, 2);
  FakeDecoder decoder({"", "", "", "", "", "", "", ""});
  GenerateRequest request;
  request.prompt = {1, 5, 5, 5, 2, 4};
  request.images = {{1, image(3, 1)}};
  request.sampling.temperature = 0;
  request.max_tokens = 1;
  const auto cached = [&] {
    const auto out = generator.run(request, decoder);
    EXPECT_TRUE(out);
    EXPECT_EQ(model.num_images, request.images.size());
    return out ? out->cached_tokens : -1;
  };
  EXPECT_EQ(cached(), 0);
  request.prompt.push_back(4);
  EXPECT_EQ(cached(), 6);
  request.prompt.push_back(4);
  request.images = {{1, image(3, 2)}};
  EXPECT_EQ(cached(), 0);
  request.prompt.push_back(4);
  EXPECT_EQ(cached(), 8);
  request.prompt.push_back(4);
  request.images.clear();
  EXPECT_EQ(cached(), 0);
}

}  // namespace
}  // namespace fathom
