#include "lockstep/record/trial_folder.h"

#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"

namespace lockstep::record {
namespace {

namespace fs = std::filesystem;

TEST(TrialFolder, NamesItsSweepAsItWasNamed) {
  const lockstep::test::TemporaryFolder folder;
  const fs::path sweep = folder.path() / "search";
  make_folders(sweep / "trials/0003");
  EXPECT_EQ(sweep_of_trial(sweep / "trials/0003"), std::nullopt) << "without sweep.json";
  write_file_atomic(sweep / "sweep.json", "{}\n");
  for (const char* name : {"trials/0003", "trials/0003/", "trials/./0003"})
    EXPECT_EQ(sweep_of_trial(sweep / name), sweep) << name;
  for (const char* name : {"", "trials", "sweep.json", "trials/0004"})
    EXPECT_EQ(sweep_of_trial(sweep / name), std::nullopt) << name;
  make_folders(sweep / "others/0003");
  EXPECT_EQ(sweep_of_trial(sweep / "others/0003"), std::nullopt);
}

TEST(TrialFolder, ACopyMayLackWeightsThatTheSweepHas) {
  const lockstep::test::TemporaryFolder folder;
  const auto said = [&] { return std::string(removed_weights("copy/trials/0001", folder.path()).what()); };
  EXPECT_NE(said().find("keeps those of its best trials only (--keep-weights)"), std::string::npos);
  write_file_atomic(folder.path() / kFetchedMark, "{}\n");
  EXPECT_NE(said().find("is a copy"), std::string::npos);
  EXPECT_EQ(said().find("--keep-weights"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::record
