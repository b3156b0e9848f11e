// A configuration: whatever is accepted obeys the rules that later code relies on.
#include <cstdint>
#include <limits>
#include <string>

#include "base/check.h"
#include "model/config.h"
#include "model/engram_layout.h"
#include "model/manifest.h"

namespace {

using fathom::ModelConfig;

void check_sources(const ModelConfig& c) {
  FATHOM_CHECK_EQ(c.compress_ratios.size(), static_cast<size_t>(c.n_layers + c.n_mtp_layers));
  for (int64_t layer = 0; layer < c.n_layers; ++layer) {
    if (c.ratio(layer) == 0) continue;
    FATHOM_CHECK(c.kv_source_of(layer) <= layer && c.ratio(c.kv_source_of(layer)) == c.ratio(layer));
    FATHOM_CHECK(c.index_source_of(layer) <= layer && c.ratio(c.index_source_of(layer)) == c.ratio(layer));
    FATHOM_CHECK(c.is_index_source(c.kv_source_of(layer)));
  }
  for (int64_t stage = c.n_layers; stage < c.n_layers + c.n_mtp_layers; ++stage)
    FATHOM_CHECK_EQ(c.ratio(stage), 0);
}

void check_engram(const ModelConfig& c) {
  const auto layout = fathom::make_engram_layout(c);
  FATHOM_CHECK(layout.has_value());
  for (int64_t layer = 0; layer < layout->num_layers; ++layer)
    FATHOM_CHECK_EQ(layout->table_rows(layer), c.engram_num_embeddings[static_cast<size_t>(layer)]);
}

void check_manifest(const ModelConfig& c) {
  if (c.n_layers * c.n_routed_experts + c.n_mtp_layers * c.dspark_n_routed_experts > 4096)
    return;  // slow, not wrong
  for (const fathom::ExpectedTensor& tensor : fathom::make_manifest(c)) {
    int64_t elements = 1;
    for (int i = 0; i < tensor.shape.rank(); ++i) {
      FATHOM_CHECK_LT(0, tensor.shape[i]);
      FATHOM_CHECK(!__builtin_mul_overflow(elements, tensor.shape[i], &elements));
    }
    FATHOM_CHECK_LT(elements, std::numeric_limits<int64_t>::max() / 8);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config = fathom::parse_config({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!config) {
    FATHOM_CHECK(!config.error().message.empty() && config.error().message.size() < 2000);
    return 0;
  }
  FATHOM_CHECK(config->norm_eps > 0);
  FATHOM_CHECK(config->n_heads % config->o_groups == 0);
  check_sources(*config);
  check_engram(*config);
  check_manifest(*config);
  return 0;
}
