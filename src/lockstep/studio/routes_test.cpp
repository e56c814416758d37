#include "lockstep/studio/routes.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/studio/log_index.h"

namespace lockstep::studio {
namespace {

namespace fs = std::filesystem;

class Routes : public testing::Test {
 protected:
  Routes() : folder_(fs::path(testing::TempDir()) / "lockstep-routes") {
    make_folders(folder_);
    setup_.roots = {folder_};
  }
  ~Routes() override { fs::remove_all(folder_); }

  bool is_slow(const std::string& method, const std::string& path) {
    EventStream events;
    Runs runs({folder_}, LogIndexes({}), events);
    Sweeps sweeps(runs.roots());
    Commands commands("lockstep", events);
    return find_answer({.method = method, .path = path}, {setup_, events, runs, sweeps, commands}).is_slow;
  }

  fs::path folder_;
  studio::Setup setup_;  // testing::Test has another Setup
};

// A file server may keep these waiting, and other requests are answered meanwhile.
TEST_F(Routes, WhatReadsOrWritesFilesOfRunsIsSlow) {
  for (const char* path : {"/api/run", "/api/curves", "/api/report", "/api/exported", "/api/sweep"})
    EXPECT_TRUE(is_slow("GET", path)) << path;
  for (const char* path : {"/api/request", "/api/command", "/api/shown", "/api/open"})
    EXPECT_TRUE(is_slow("POST", path)) << path;
  for (const char* path : {"/", "/api/studio", "/api/runs", "/api/stream", "/api/command"})
    EXPECT_FALSE(is_slow("GET", path)) << path;
}

}  // namespace
}  // namespace lockstep::studio
