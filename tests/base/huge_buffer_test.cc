#include "base/huge_buffer.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(HugeBuffer, IsZeroedAlignedAndOfWholePages) {
  const auto buffer = HugeBuffer::allocate(10000);
  ASSERT_TRUE(buffer);
  EXPECT_EQ(buffer->bytes(), HugeBuffer::alignment);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % HugeBuffer::alignment, 0u);
  for (int64_t i = 0; i < buffer->bytes(); ++i) ASSERT_EQ(buffer->data()[i], std::byte{0});
}

TEST(HugeBuffer, OfNothingIsNone) {
  const auto buffer = HugeBuffer::allocate(0);
  ASSERT_TRUE(buffer);
  EXPECT_EQ(buffer->data(), nullptr);
  EXPECT_EQ(buffer->bytes(), 0);
}

}  // namespace
}  // namespace fathom
