// Opening the released shape, as make_sparse_checkpoint writes it: the right numbers in little memory.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "model/tensor_table.h"

namespace fathom {
namespace {

// Resident memory of this process in KiB.
int64_t resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6));
  return 0;
}

TEST(ReleasedShape, OpensInLittleMemory) {
  const int64_t before = resident();
  const auto config = load_config(FATHOM_RELEASED_SHAPE);
  ASSERT_TRUE(config) << config.error().message << " (the test make_released_shape writes it)";
  const auto checkpoint = Checkpoint::open(FATHOM_RELEASED_SHAPE);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const auto table = TensorTable::bind(*checkpoint, *config);
  ASSERT_TRUE(table) << table.error().message;

  EXPECT_EQ(config->max_seq_len, 1048576);
  EXPECT_EQ(checkpoint->num_shards(), 48u);
  EXPECT_EQ(table->size(), 96085u);
  EXPECT_TRUE(table->draft_available()) << table->draft_problem();
  EXPECT_TRUE(table->vision_available()) << table->vision_problem();
  EXPECT_NEAR(static_cast<double>(checkpoint->total_bytes()) / (1 << 30), 475.2, 0.05);
  EXPECT_LT(resident() - before, 300 * 1024);
}

}  // namespace
}  // namespace fathom
