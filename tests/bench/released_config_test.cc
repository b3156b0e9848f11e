#include "bench/released_config.h"

#include <gtest/gtest.h>

#include "model/manifest.h"
#include "tests/support/released_config.h"

namespace fathom::bench {
namespace {

// The same text model as the published configuration describes.
TEST(ReleasedConfig, HasTheTensorsOfThePublishedOne) {
  const auto published = parse_config(test::released_flat_config);
  ASSERT_TRUE(published) << published.error().message;
  ModelConfig text = *published;
  text.vision.reset();
  text.n_mtp_layers = 0;
  const auto expected = make_manifest(text);
  const auto found = make_manifest(released_config());
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].name, expected[i].name);
    ASSERT_EQ(found[i].shape, expected[i].shape) << found[i].name;
    ASSERT_EQ(found[i].storage, expected[i].storage) << found[i].name;
  }
}

TEST(ReleasedConfig, HasTheNumbersThatNoTensorShows) {
  const auto published = parse_config(test::released_flat_config);
  ASSERT_TRUE(published) << published.error().message;
  const ModelConfig c = released_config();
  EXPECT_EQ(c.window_size, published->window_size);
  EXPECT_EQ(c.candidate_source_layer, published->candidate_source_layer);
  EXPECT_EQ(c.candidate_topk_blocks, published->candidate_topk_blocks);
  EXPECT_EQ(c.candidate_block_size, published->candidate_block_size);
  EXPECT_EQ(c.index_topk, published->index_topk);
  EXPECT_EQ(c.rope_head_dim, published->rope_head_dim);
  EXPECT_EQ(c.rope_theta, published->rope_theta);
  EXPECT_EQ(c.n_activated_experts, published->n_activated_experts);
  EXPECT_EQ(c.score_func, published->score_func);
  EXPECT_EQ(c.route_scale, published->route_scale);
  EXPECT_EQ(c.swiglu_limit, published->swiglu_limit);
  EXPECT_EQ(c.norm_eps, published->norm_eps);
  EXPECT_EQ(c.hc_sinkhorn_iters, published->hc_sinkhorn_iters);
  EXPECT_EQ(c.hc_eps, published->hc_eps);
  const std::vector<int64_t> text_ratios(published->compress_ratios.begin(),
                                         published->compress_ratios.begin() + c.n_layers);
  EXPECT_EQ(c.compress_ratios, text_ratios);
}

}  // namespace
}  // namespace fathom::bench
