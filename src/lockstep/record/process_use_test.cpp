#include "lockstep/record/process_use.h"

#include <gtest/gtest.h>

namespace lockstep::record {
namespace {

TEST(ProcessUse, OfThisProcess) {
  const ProcessIdentity here = this_process();
  const auto before = use_of(here);
  ASSERT_TRUE(before);
  EXPECT_GE(before->threads, 1);
  EXPECT_GT(before->memory_bytes, 1 << 20);
  auto use = before;
  while (use->processor_seconds < before->processor_seconds + 0.02) use = use_of(here);
  EXPECT_LT(use->processor_seconds, before->processor_seconds + 10);
}

TEST(ProcessUse, NothingOfAnotherProcess) {
  ProcessIdentity other = this_process();
  other.process_start += 1;
  EXPECT_FALSE(use_of(other)) << "the number is used again";
  other = this_process();
  other.boot = "another machine";
  EXPECT_FALSE(use_of(other));
  EXPECT_FALSE(use_of({}));
}

}  // namespace
}  // namespace lockstep::record
