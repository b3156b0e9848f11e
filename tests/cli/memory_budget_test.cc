#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/memory_report.h"
#include "tests/support/fake_machine.h"

namespace fathom {
namespace {

using testing::HasSubstr;

// A machine of 24 GiB, and a control group of `limit` bytes of which 20 MiB are used.
class Group : public test::FakeMachine {
 public:
  explicit Group(int64_t limit) {
    file("proc/meminfo", "MemTotal: 25165824 kB\nMemAvailable: 20971520 kB\n");
    file("proc/self/status", "RssAnon: 10240 kB\n");
    in_group("small").group("small", std::to_string(limit), 20 << 20);
  }
  MemoryBudget budget(const std::optional<int64_t>& given = std::nullopt) const {
    return memory_budget(given, root());
  }
};

TEST(MemoryBudget, OfASmallGroupIsMostOfWhatIsLeft) {
  const MemoryBudget budget = Group(100 << 20).budget();
  EXPECT_EQ(budget.bytes, (10 + 80 - 10) << 20);  // an eighth is for others
  EXPECT_TRUE(budget.source.ends_with("/sys/fs/cgroup/small"));
  EXPECT_THAT(budget.origin,
              HasSubstr("/sys/fs/cgroup/small: of 100.0 MiB, this process has 10.0 MiB and may "
                        "have 80.0 MiB more, less 10.0 MiB for others"));
  EXPECT_EQ(budget.warning, "");
}

TEST(MemoryBudget, IsNeverNegative) {
  for (const int64_t limit : {0, 1 << 20, 20 << 20, 21 << 20}) EXPECT_GE(Group(limit).budget().bytes, 0);
}

TEST(MemoryBudget, OfARefusalSaysWhereItIsFrom) {
  MemoryNeeds needs;
  needs.dense = 1 << 30;
  const auto forecast = forecast_memory({}, needs, Group(100 << 20).budget(), {});
  ASSERT_FALSE(forecast);
  EXPECT_THAT(forecast.error().message, HasSubstr("80.0 MiB of memory is too little"));
  EXPECT_THAT(forecast.error().message, HasSubstr("(by "));
}

TEST(MemoryBudget, MoreThanThereIsIsDoubtful) {
  const Group group(int64_t{1} << 30);
  EXPECT_EQ(group.budget(int64_t{1} << 30).warning, "");
  const MemoryBudget budget = group.budget(int64_t{16} << 40);
  EXPECT_EQ(budget.bytes, int64_t{16} << 40);
  EXPECT_TRUE(budget.warning.starts_with("--memory 16.0 TiB is more than there is: 1.0 GiB ("))
      << budget.warning;
  EXPECT_THAT(budget.warning, HasSubstr("/sys/fs/cgroup/small)"));
  EXPECT_THAT(Group(int64_t{1} << 50).budget(int64_t{16} << 40).warning, HasSubstr(": 24.0 GiB ("));
}

}  // namespace
}  // namespace fathom
