#include "model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/support/checkpoint_builder.h"
#include "tests/support/released_config.h"

namespace fathom {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::filesystem::path tiny = std::filesystem::path(FATHOM_SOURCE_DIR) / "tests/golden/tiny/model";

Json tiny_json() { return *parse_json(test::read_all(tiny / "config.json"), "tiny"); }
Json flat_json() { return *parse_json(test::released_flat_config, "flat"); }

std::string error_of(const Json& json) {
  const auto config = parse_config(json.dump());
  return config ? "accepted" : config.error().message;
}

// The tiny (nested) configuration with one value replaced.
std::string with(const std::string& pointer, const Json& value) {
  Json json = tiny_json();
  json[Json::json_pointer(pointer)] = value;
  return error_of(json);
}
std::string text_with(const std::string& key, const Json& value) {
  return with("/text_config/" + key, value);
}
std::string without(const std::string& section, const std::string& key) {
  Json json = tiny_json();
  Json& object = section.empty() ? json : json[Json::json_pointer(section)];
  object.erase(key);
  return error_of(json);
}
std::string flat_with(const std::string& key, const Json& value) {
  Json json = flat_json();
  json[key] = value;
  return error_of(json);
}

TEST(Config, ReadsTheNestedSpelling) {
  const auto loaded = load_config(tiny);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const ModelConfig& c = *loaded;
  EXPECT_EQ(c.vocab_size, 1024);
  EXPECT_EQ(c.dim, 128);
  EXPECT_EQ(c.moe_inter_dim, 96);
  EXPECT_EQ(c.n_layers, 8);
  EXPECT_EQ(c.n_mtp_layers, 2);
  EXPECT_EQ(c.n_heads, 8);
  EXPECT_EQ(c.head_dim, 512);
  EXPECT_EQ(c.rope_head_dim, 64);
  EXPECT_EQ(c.q_lora_rank, 64);
  EXPECT_EQ(c.o_lora_rank, 32);
  EXPECT_EQ(c.o_groups, 2);
  EXPECT_EQ(c.norm_eps, 1e-20);
  EXPECT_GT(c.norm_eps, 0);
  EXPECT_EQ(c.window_size, 16);
  EXPECT_THAT(c.compress_ratios, ElementsAre(0, 0, 2, 2, 2, 1, 1, 1, 0, 0));
  EXPECT_THAT(c.kv_source_layers, ElementsAre(2, 5));
  EXPECT_THAT(c.index_source_layers, ElementsAre(2, 5, 7));
  EXPECT_EQ(c.candidate_source_layer, 5);
  EXPECT_EQ(c.candidate_topk_blocks, 4);
  EXPECT_EQ(c.candidate_block_size, 8);
  EXPECT_EQ(c.index_n_heads, 4);
  EXPECT_EQ(c.index_head_dim, 128);
  EXPECT_EQ(c.index_topk, 12);
  EXPECT_EQ(c.rope_theta, 10000);
  EXPECT_EQ(c.compress_rope_theta, 160000);
  EXPECT_EQ(c.rope_factor, 16);
  EXPECT_EQ(c.beta_fast, 32);
  EXPECT_EQ(c.beta_slow, 1);
  EXPECT_EQ(c.original_seq_len, 64);
  EXPECT_EQ(c.max_seq_len, 4096);
  EXPECT_EQ(c.n_routed_experts, 8);
  EXPECT_EQ(c.n_activated_experts, 3);
  EXPECT_EQ(c.score_func, RouterScore::sqrtsoftplus);
  EXPECT_EQ(c.route_scale, 1.5);
  EXPECT_EQ(c.swiglu_limit, 10);
  EXPECT_EQ(c.hc_mult, 4);
  EXPECT_EQ(c.hc_sinkhorn_iters, 20);
  EXPECT_EQ(c.hc_eps, 1e-6);
  EXPECT_THAT(c.engram_layer_ids, ElementsAre(1, 3));
  EXPECT_THAT(c.engram_num_embeddings, ElementsAre(1362, 1552));
  EXPECT_EQ(c.engram_max_ngram_size, 4);
  EXPECT_EQ(c.engram_vocab_size, 200);
  EXPECT_EQ(c.engram_n_heads, 2);
  EXPECT_EQ(c.engram_head_dim, 32);
  EXPECT_EQ(c.engram_pad_id, 2);
  EXPECT_EQ(c.engram_compressed_vocab_size, 851);
  EXPECT_EQ(c.dspark_block_size, 5);
  EXPECT_EQ(c.dspark_noise_token_id, 1023);
  EXPECT_THAT(c.dspark_target_layer_ids, ElementsAre(6, 7));
  EXPECT_EQ(c.dspark_markov_rank, 32);
  EXPECT_EQ(c.dspark_n_routed_experts, 4);
  EXPECT_EQ(c.dspark_n_activated_experts, 2);
  EXPECT_EQ(c.bos_token_id, 0);
  EXPECT_EQ(c.eos_token_id, 1);
  EXPECT_EQ(c.pad_token_id, 2);
  EXPECT_EQ(c.image_token_id, 1016);
  ASSERT_TRUE(c.vision);
  EXPECT_EQ(c.vision->n_layers, 2);
  EXPECT_EQ(c.vision->dim, 64);
  EXPECT_EQ(c.vision->n_heads, 2);
  EXPECT_EQ(c.vision->inter_dim, 96);
  EXPECT_EQ(c.vision->patch_size, 14);
  EXPECT_EQ(c.vision->rope_theta, 10000);
  EXPECT_EQ(c.vision->downsample_ratio, 3);
  EXPECT_EQ(c.vision->max_n_token, 64);
  EXPECT_EQ(c.vision->min_pixels, 7056);
  EXPECT_FALSE(c.vision->max_wh_ratio);
}

TEST(Config, ReadsTheFlatSpelling) {
  const auto parsed = parse_config(test::released_flat_config);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const ModelConfig& c = *parsed;
  EXPECT_EQ(c.dim, 5120);
  EXPECT_EQ(c.compress_ratios.size(), 43u);
  EXPECT_EQ(c.norm_eps, 1e-20);
  EXPECT_EQ(c.engram_pad_id, 2);
  EXPECT_EQ(c.max_seq_len, 1048576);  // 16 * 65536: not stated there
  EXPECT_EQ(c.n_activated_experts, 6);
  EXPECT_EQ(c.dspark_n_activated_experts, 3);
  EXPECT_EQ(c.route_scale, 1.5);
  EXPECT_EQ(c.image_token_id, 129264);
  ASSERT_TRUE(c.vision);
  EXPECT_EQ(c.vision->min_pixels, 295936);
  EXPECT_EQ(c.hc_mix(), 24);
  EXPECT_EQ(c.engram_columns(), 24);
  Json limited = flat_json();
  limited["max_seq_len"] = 4096;
  EXPECT_EQ(parse_config(limited.dump())->max_seq_len, 4096);
}

TEST(Config, ReadsTheDemoModel) {
  const auto loaded = load_config(std::filesystem::path(FATHOM_SOURCE_DIR) / "models/demo");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->max_seq_len, 8192);
}

TEST(Config, FindsSources) {
  const ModelConfig c = *parse_config(test::released_flat_config);
  EXPECT_TRUE(c.is_kv_source(14));
  EXPECT_FALSE(c.is_kv_source(24));
  EXPECT_TRUE(c.is_index_source(24));
  EXPECT_EQ(c.kv_source_of(2), 2);
  EXPECT_EQ(c.kv_source_of(7), 2);
  EXPECT_EQ(c.kv_source_of(27), 20);
  EXPECT_EQ(c.index_source_of(27), 24);
  EXPECT_EQ(c.index_source_of(39), 36);
  EXPECT_EQ(c.engram_index(1), 0);
  EXPECT_EQ(c.engram_index(14), 1);
  EXPECT_EQ(c.engram_index(2), -1);
}

TEST(Config, TakesTheModelTypeExactly) {
  for (const char* type :
       {"deepseek_v4", "deepseek_v42", "deepseek_v411", "deepseek_v41 ", "DeepSeek_v41", ""})
    EXPECT_THAT(with("/model_type", type), HasSubstr("model_type: expected \"deepseek_v41\", found")) << type;
  EXPECT_THAT(without("", "model_type"), HasSubstr("model_type: missing"));
  EXPECT_EQ(flat_with("model_type", "deepseek_v41"), "accepted");
  EXPECT_THAT(flat_with("model_type", "deepseek_v4"), HasSubstr("model_type"));
}

TEST(Config, RequiresEveryKeyOfTheTable) {
  for (const char* key : {"vocab_size",
                          "hidden_size",
                          "moe_intermediate_size",
                          "num_hidden_layers",
                          "num_attention_heads",
                          "head_dim",
                          "qk_rope_head_dim",
                          "q_lora_rank",
                          "o_lora_rank",
                          "o_groups",
                          "rms_norm_eps",
                          "sliding_window",
                          "compress_ratios",
                          "kv_source_layer_ids",
                          "index_source_layer_ids",
                          "candidate_source_layer_id",
                          "candidate_topk_blocks",
                          "candidate_block_size",
                          "index_n_heads",
                          "index_head_dim",
                          "index_topk",
                          "rope_theta",
                          "compress_rope_theta",
                          "max_position_embeddings",
                          "n_routed_experts",
                          "num_experts_per_tok",
                          "scoring_func",
                          "routed_scaling_factor",
                          "swiglu_limit",
                          "hc_mult",
                          "hc_sinkhorn_iters",
                          "hc_eps",
                          "engram_num_embeddings",
                          "engram_max_ngram_size",
                          "engram_vocab_size",
                          "engram_n_heads",
                          "engram_head_dim",
                          "engram_pad_token_id",
                          "engram_compressed_vocab_size",
                          "dspark_block_size",
                          "dspark_noise_token_id",
                          "dspark_target_layer_ids",
                          "dspark_markov_rank",
                          "dspark_n_routed_experts",
                          "dspark_num_experts_per_tok"}) {
    const std::string expected = fmt::format("config.json: text_config.{}: missing", key);
    EXPECT_THAT(without("/text_config", key), HasSubstr(expected));
    EXPECT_THAT(text_with(key, nullptr), HasSubstr(expected));
  }
  for (const char* key : {"factor", "beta_fast", "beta_slow", "original_max_position_embeddings"})
    EXPECT_THAT(without("/text_config/rope_scaling", key),
                HasSubstr(fmt::format("rope_scaling.{}: missing", key)));
  for (const char* key : {"num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size",
                          "patch_size", "rope_theta", "downsample_ratio", "max_image_tokens", "min_pixels"})
    EXPECT_THAT(without("/vision_config", key), HasSubstr(fmt::format("vision_config.{}: missing", key)));
  for (const char* key : {"text_config", "quantization_config", "image_token_id"})
    EXPECT_THAT(without("", key), HasSubstr(fmt::format("config.json: {}: missing", key)));
  EXPECT_THAT(without("/text_config", "rope_scaling"), HasSubstr("rope_scaling: missing"));
}

TEST(Config, IgnoresUnknownKeys) {
  EXPECT_EQ(text_with("num_hash_layers", "anything"), "accepted");
  EXPECT_EQ(with("/transformers_version", Json::array({1})), "accepted");
}

TEST(Config, GoesWithoutVision) {
  Json json = tiny_json();
  json.erase("vision_config");
  auto config = parse_config(json.dump());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->vision);
  EXPECT_EQ(config->image_token_id, -1);
  json["vision_config"] = nullptr;
  json.erase("image_token_id");
  EXPECT_EQ(error_of(json), "accepted");
  Json flat = flat_json();
  flat["vision_n_layers"] = 0;
  EXPECT_FALSE(parse_config(flat.dump())->vision);
}

TEST(Config, GoesWithoutDraftStages) {
  Json json = tiny_json();
  Json& text = json["text_config"];
  text["num_nextn_predict_layers"] = 0;
  for (const char* key : {"dspark_block_size", "dspark_noise_token_id", "dspark_target_layer_ids",
                          "dspark_markov_rank", "dspark_n_routed_experts", "dspark_num_experts_per_tok"})
    text.erase(key);
  auto config = parse_config(json.dump());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->n_mtp_layers, 0);
  EXPECT_EQ(config->compress_ratios.size(), 8u);
  text.erase("num_nextn_predict_layers");
  EXPECT_EQ(error_of(json), "accepted");
}

TEST(Config, GoesWithoutEngram) {
  Json json = tiny_json();
  Json& text = json["text_config"];
  for (const char* key :
       {"engram_num_embeddings", "engram_max_ngram_size", "engram_vocab_size", "engram_n_heads",
        "engram_head_dim", "engram_pad_token_id", "engram_compressed_vocab_size"})
    text.erase(key);
  text["engram_layer_ids"] = Json::array();
  EXPECT_EQ(error_of(json), "accepted");
  text.erase("engram_layer_ids");
  const auto config = parse_config(json.dump());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->engram_layer_ids.empty());
}

TEST(Config, GoesWithoutCandidates) {
  Json json = tiny_json();
  json["text_config"]["candidate_source_layer_id"] = -1;
  json["text_config"].erase("candidate_topk_blocks");
  EXPECT_EQ(error_of(json), "accepted");
}

TEST(Config, TakesRopeParametersToo) {
  Json json = tiny_json();
  Json& text = json["text_config"];
  text["rope_parameters"] = text["rope_scaling"];
  text["rope_parameters"]["rope_theta"] = 12345;
  text["rope_scaling"] = nullptr;
  EXPECT_EQ(parse_config(json.dump())->rope_theta, 10000);
  text.erase("rope_theta");
  const auto config = parse_config(json.dump());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->rope_theta, 12345);
  EXPECT_EQ(config->rope_factor, 16);
  text["rope_parameters"]["rope_type"] = "linear";
  EXPECT_THAT(error_of(json), HasSubstr("text_config.rope_parameters.rope_type: expected \"yarn\""));
}

TEST(Config, KeepsTheSmallestEpsilonAndRefusesWorse) {
  EXPECT_EQ(text_with("rms_norm_eps", 1e-30), "accepted");
  for (const Json& value :
       {Json("1e-20"), Json(0), Json(0.0), Json(-1e-20), Json(1e-50), Json(true), Json::array({1})})
    EXPECT_THAT(text_with("rms_norm_eps", value), HasSubstr("text_config.rms_norm_eps: expected a number"))
        << value.dump();
}

TEST(Config, RefusesValuesThatAreNoIntegersInRange) {
  for (const Json& value : {Json("128"), Json(128.0), Json(0), Json(-128), Json(31), Json(1 << 20),
                            Json(INT64_MAX), Json(UINT64_MAX), Json(INT64_MIN), Json(1e300), Json(true),
                            Json::array({128}), Json::object({{"a", 1}})})
    EXPECT_THAT(text_with("hidden_size", value),
                AllOf(HasSubstr("text_config.hidden_size: expected an integer"), HasSubstr("found")))
        << value.dump();
  EXPECT_THAT(text_with("hidden_size", std::string(100000, 'x')), testing::SizeIs(testing::Lt(300u)));
}

TEST(Config, ReadsCompressRatiosOfEveryLength) {
  const auto ratios = [](size_t count) {
    std::vector<int> list{0, 0, 2, 2, 2, 1, 1, 1, 0, 0, 0, 0};
    list.resize(count);
    return list;
  };
  EXPECT_THAT(text_with("compress_ratios", ratios(7)), HasSubstr("7 entries for 8 layers"));
  for (const size_t count : {8u, 9u, 10u, 12u}) {
    Json json = tiny_json();
    json["text_config"]["compress_ratios"] = ratios(count);
    const auto config = parse_config(json.dump());
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->compress_ratios.size(), 10u);
    EXPECT_EQ(config->ratio(9), 0);
  }
  EXPECT_THAT(text_with("compress_ratios", {0, 0, 2, 2, 2, 1, 1, 1, 0, 1}),
              HasSubstr("entry 9 belongs to a draft"));
  EXPECT_THAT(text_with("compress_ratios", {0, 0, 2, 2, 2, 1, 1, 1, 0, 0, 0, 2}), HasSubstr("entry 11"));
  EXPECT_THAT(text_with("compress_ratios", {0, 0, -2, 2, 2, 1, 1, 1}), HasSubstr("from 0 to 1024, found -2"));
  EXPECT_THAT(text_with("compress_ratios", std::vector<int>(5000)),
              HasSubstr("at most 2048 integers, found 5000"));
}

TEST(Config, RefusesBadSources) {
  const auto kv = [](const Json& list) { return text_with("kv_source_layer_ids", list); };
  const auto index = [](const Json& list) { return text_with("index_source_layer_ids", list); };
  EXPECT_THAT(kv({5, 2}),
              HasSubstr("kv_source_layer_ids: expected strictly increasing layers, found 2 after 5"));
  EXPECT_THAT(kv({2, 2, 5}), HasSubstr("found 2 after 2"));
  EXPECT_THAT(kv({2, 5, 8}), HasSubstr("layer 8 is out of range, the model has layers 0 to 7"));
  EXPECT_THAT(kv({-1, 2, 5}), HasSubstr("found -1"));
  EXPECT_THAT(kv({1, 2, 5}), HasSubstr("layer 1 has compress_ratios 0 and cannot be a source"));
  EXPECT_THAT(kv({5}), HasSubstr("layer 2 has compress_ratios 2 and no source at or below it"));
  EXPECT_THAT(kv({2}), HasSubstr("layer 5 has compress_ratios 1, its source, layer 2, has 2"));
  EXPECT_THAT(kv(Json::array()), HasSubstr("no source at or below"));
  EXPECT_THAT(kv({2, 3, 5}), HasSubstr("kv_source_layer_ids: layer 3 is not in index_source_layer_ids"));
  EXPECT_THAT(kv({2, "5"}), HasSubstr("expected an integer, found \"5\""));
  EXPECT_THAT(kv(2), HasSubstr("expected a list of integers, found 2"));
  EXPECT_THAT(index({5, 7}),
              HasSubstr("index_source_layer_ids: layer 2 has compress_ratios 2 and no source"));
  EXPECT_THAT(index({2, 7}), HasSubstr("layer 5 has compress_ratios 1, its source, layer 2, has 2"));
  EXPECT_THAT(index({2, 5, 7, 7}), HasSubstr("strictly increasing"));
}

TEST(Config, RefusesBadCandidates) {
  EXPECT_THAT(text_with("candidate_source_layer_id", 6),
              HasSubstr("candidate_source_layer_id: layer 6 is not in index_source_layer_ids"));
  EXPECT_THAT(text_with("candidate_source_layer_id", -2), HasSubstr("from -1 to"));
  // (2 - 1) * 8 + 1 = 9 < 12; (3 - 1) * 8 + 1 = 17.
  EXPECT_THAT(text_with("candidate_topk_blocks", 2),
              HasSubstr("may hold fewer positions than index_topk = 12"));
  EXPECT_EQ(text_with("candidate_topk_blocks", 3), "accepted");
  EXPECT_EQ(text_with("index_topk", 25), "accepted");  // (4 - 1) * 8 + 1
  EXPECT_THAT(text_with("index_topk", 26), HasSubstr("may hold fewer"));
  EXPECT_THAT(text_with("candidate_source_layer_id", 2), HasSubstr("the later index source 5 has 1"));
}

TEST(Config, RefusesDimsThatDoNotDivide) {
  EXPECT_THAT(text_with("hidden_size", 130), HasSubstr("hidden_size: expected a multiple of 32, found 130"));
  EXPECT_THAT(text_with("moe_intermediate_size", 100), HasSubstr("multiple of 32"));
  EXPECT_THAT(text_with("head_dim", 500), HasSubstr("multiple of 32"));
  EXPECT_THAT(text_with("index_head_dim", 120), HasSubstr("multiple of 32"));
  EXPECT_THAT(text_with("q_lora_rank", 40), HasSubstr("multiple of 32"));
  EXPECT_THAT(text_with("o_lora_rank", 48), HasSubstr("multiple of 32"));
  EXPECT_THAT(text_with("engram_head_dim", 48), HasSubstr("multiple of 32"));
  EXPECT_THAT(text_with("qk_rope_head_dim", 63), HasSubstr("multiple of 2"));
  EXPECT_THAT(text_with("qk_rope_head_dim", 130), HasSubstr("more than head_dim 512 or index_head_dim 128"));
  EXPECT_THAT(text_with("o_groups", 3), HasSubstr("8 heads do not divide into o_groups = 3"));
  EXPECT_THAT(with("/vision_config/num_attention_heads", 3), HasSubstr("does not divide"));
  EXPECT_THAT(with("/vision_config/num_attention_heads", 32), HasSubstr("multiple of 4"));
}

TEST(Config, RefusesBadExperts) {
  EXPECT_THAT(text_with("num_experts_per_tok", 9), HasSubstr("9 of 8 experts cannot be chosen"));
  EXPECT_THAT(text_with("dspark_num_experts_per_tok", 5), HasSubstr("5 of 4 experts"));
  EXPECT_THAT(text_with("n_shared_experts", 2), HasSubstr("n_shared_experts: expected 1"));
  EXPECT_THAT(text_with("n_routed_experts", 65536), HasSubstr("expected at most 131072"));
  EXPECT_THAT(text_with("scoring_func", "relu"),
              HasSubstr("expected sqrtsoftplus, sigmoid or softmax, found"));
  EXPECT_EQ(text_with("scoring_func", "sigmoid"), "accepted");
  EXPECT_EQ(text_with("scoring_func", "softmax"), "accepted");
}

TEST(Config, RefusesVariantsItDoesNotCompute) {
  EXPECT_THAT(text_with("norm_topk_prob", false), HasSubstr("norm_topk_prob: expected true"));
  EXPECT_THAT(text_with("topk_method", "greedy"), HasSubstr("topk_method: expected \"noaux_tc\""));
  EXPECT_THAT(text_with("num_key_value_heads", 8), HasSubstr("num_key_value_heads: expected 1"));
  EXPECT_THAT(text_with("attention_bias", true), HasSubstr("attention_bias"));
  EXPECT_THAT(text_with("tie_word_embeddings", true), HasSubstr("tie_word_embeddings"));
  EXPECT_THAT(text_with("q_head_norm", true), HasSubstr("q_head_norm"));
  EXPECT_THAT(text_with("hidden_act", "gelu"), HasSubstr("hidden_act"));
  EXPECT_THAT(with("/quantization_config/weight_block_size", {128, 128}),
              HasSubstr("quantization_config.weight_block_size: expected [32,32]"));
  EXPECT_THAT(with("/quantization_config/quant_method", "awq"), HasSubstr("quant_method"));
  EXPECT_THAT(with("/quantization_config/scale_fmt", "float"), HasSubstr("scale_fmt"));
  EXPECT_THAT(with("/quantization_config/expert_dtype", "fp8"), HasSubstr("expert_dtype"));
  EXPECT_THAT(with("/quantization_config", "fp8"), HasSubstr("quantization_config: expected an object"));
  EXPECT_THAT(flat_with("dtype", "bf16"), HasSubstr("dtype: expected \"fp8\""));
  EXPECT_THAT(flat_with("expert_dtype", "fp8"), HasSubstr("expert_dtype"));
}

TEST(Config, RefusesBadEngram) {
  EXPECT_THAT(text_with("engram_layer_ids", {1, 8}), HasSubstr("engram_layer_ids: layer 8 is out of range"));
  EXPECT_THAT(text_with("engram_layer_ids", {3, 1}), HasSubstr("strictly increasing"));
  EXPECT_THAT(text_with("engram_num_embeddings", {1362}), HasSubstr("1 entries for 2 layers"));
  EXPECT_THAT(
      text_with("engram_num_embeddings", {1362, 1553}),
      HasSubstr("1553 rows for layer 3, the bucket primes from engram_vocab_size = 200 add up to 1552"));
  EXPECT_THAT(text_with("engram_vocab_size", 212), HasSubstr("add up to"));
  EXPECT_THAT(text_with("engram_pad_token_id", 1024), HasSubstr("token 1024 is not in a vocabulary of 1024"));
  EXPECT_THAT(text_with("engram_compressed_vocab_size", 1025),
              HasSubstr("1025 is more than vocab_size = 1024"));
  EXPECT_THAT(text_with("engram_compressed_vocab_size", 0), HasSubstr("from 1"));
  EXPECT_THAT(text_with("engram_max_ngram_size", 1), HasSubstr("from 2 to 8"));
  EXPECT_THAT(text_with("engram_n_heads", 0), HasSubstr("from 1 to 64"));
  EXPECT_THAT(text_with("engram_vocab_size", INT64_MAX), HasSubstr("from 1"));
}

TEST(Config, RefusesBadDraft) {
  EXPECT_THAT(text_with("dspark_target_layer_ids", {6, 8}),
              HasSubstr("dspark_target_layer_ids: layer 8 is out of range"));
  EXPECT_THAT(text_with("dspark_target_layer_ids", Json::array()), HasSubstr("at least one layer"));
  EXPECT_THAT(text_with("dspark_noise_token_id", 1024), HasSubstr("not in a vocabulary"));
  EXPECT_THAT(text_with("dspark_block_size", 0), HasSubstr("from 1"));
}

TEST(Config, RefusesSpecialTokensOutsideTheVocabulary) {
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id", "image_token_id"})
    EXPECT_THAT(with(std::string("/") + key, 1024), HasSubstr(fmt::format("{}: token 1024 is not in", key)));
}

TEST(Config, RefusesAnImageTokenWithAnotherMeaning) {
  for (const int id : {0, 1, 2}) EXPECT_THAT(with("/image_token_id", id), HasSubstr("another meaning"));
}

TEST(Config, RefusesTextThatIsNoConfiguration) {
  for (const char* text :
       {"", "[]", "1", "null", "{", "{}", R"({"model_type":"deepseek_v41"})",
        R"({"model_type":"deepseek_v41","text_config":[]})", R"({"model_type":1,"text_config":{}})"})
    EXPECT_FALSE(parse_config(text)) << text;
  std::string twice = tiny_json().dump();
  twice.insert(1, "\"model_type\":\"x\",");
  EXPECT_THAT(parse_config(twice).error().message, HasSubstr("duplicate key"));
  const test::TempDir dir;
  const auto missing = load_config(dir.path());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
}

TEST(Config, SaysWhenWhatIsGivenIsNoDirectory) {
  const auto file = load_config(tiny / "config.json");
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, AllOf(HasSubstr("expected a model directory"), HasSubstr("config.json, "),
                                          HasSubstr("found a file")));
  const auto nothing = load_config("somebody/some-model");
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().message,
              AllOf(testing::StartsWith("somebody/some-model: "), HasSubstr("found nothing of that name")));
}

// No single absurd value may get past the ranges, stall or crash.
TEST(Config, SurvivesAbsurdValuesEverywhere) {
  const Json original = tiny_json();
  const Json absurd[] = {0,
                         -1,
                         INT64_MAX,
                         INT64_MIN,
                         UINT64_MAX,
                         1e308,
                         -0.0,
                         "x",
                         nullptr,
                         true,
                         Json::array(),
                         Json::object(),
                         Json::array({INT64_MAX, INT64_MIN}),
                         Json::array({nullptr})};
  const Json flattened = original.flatten();
  for (const auto& [pointer, old] : flattened.items()) {
    for (const Json& value : absurd) {
      Json json = original;
      json[Json::json_pointer(pointer)] = value;
      const auto config = parse_config(json.dump());
      if (!config) continue;
      EXPECT_LE(config->dim * config->vocab_size, int64_t{1} << 40);
    }
  }
}

}  // namespace
}  // namespace fathom
