#include "lockstep/record/event_kinds.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "lockstep/base/file.h"

namespace lockstep::record {
namespace {

TEST(EventKinds, TheDocumentationHasTheirTable) {
  const char* source = std::getenv("LOCKSTEP_SOURCE");
  if (source == nullptr) GTEST_SKIP() << "LOCKSTEP_SOURCE is not set";
  const std::string page = read_file(std::filesystem::path(source) / "docs/run-folder.md");
  const size_t begin = page.find("| kind | values | when |");
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(page.substr(begin, page.find("\n\n", begin) + 1 - begin), kinds_markdown());
}

TEST(EventKinds, AnEventHasTheValuesOfItsKind) {
  const Event event = event_of(Hash{"4fdf"}, 3, 1);
  EXPECT_EQ(event.kind, "hash");
  EXPECT_EQ(event.step, 3);
  EXPECT_EQ(event.epoch, 1);
  EXPECT_EQ(text(event, "weights"), "4fdf");
}

TEST(EventKinds, WhatWasMeasuredIsReplacedWithItsStep) {
  for (const char* kind : {"step", "validation", "hash", "checkpoint", "message", "unknown"})
    EXPECT_TRUE(is_replaced_with_its_step(kind)) << kind;
  for (const char* kind : {"plan", "environment", "stopping", "request", "failed", "end"})
    EXPECT_FALSE(is_replaced_with_its_step(kind)) << kind;
}

}  // namespace
}  // namespace lockstep::record
