#include "lockstep/jobs/surroundings.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::jobs {
namespace {

using testing::Contains;
using testing::Not;

TEST(Surroundings, KnowSecretsByTheirNames) {
  const std::vector<std::string> secrets{"AWS_PAT",        "GITHUB_PAT", "PAT_OF_CI",  "GPG_PASSPHRASE",
                                         "DB_CREDENTIALS", "HF_TOKEN",   "MYSQL_PASS", "TEST_NAMED"};
  const std::vector<std::string> others{"MY_PATH", "PATTERN", "COMPASS", "TEST_OTHER"};
  for (const auto& names : {secrets, others}) {
    for (const std::string& name : names) ::setenv(name.c_str(), "value", 1);
  }
  const Surroundings here = surroundings_here({"TEST_NAMED"});
  for (const std::string& name : secrets) {
    EXPECT_THAT(here.secrets, Contains(name));
    EXPECT_THAT(here.variables, Not(Contains(name + "=value")));
  }
  for (const std::string& name : others) EXPECT_THAT(here.variables, Contains(name + "=value"));
}

// It would wait for the others.
TEST(Surroundings, AJobThatARankSubmitsIsNoRank) {
  const std::vector<std::string> names{"RANK", "WORLD_SIZE", "MASTER_ADDR", "SLURM_PROCID", "PMI_RANK"};
  for (const std::string& name : names) ::setenv(name.c_str(), "1", 1);
  const Surroundings here = surroundings_here();
  for (const std::string& name : names) {
    EXPECT_THAT(here.variables, Not(Contains(name + "=1")));
    ::unsetenv(name.c_str());
  }
}

}  // namespace
}  // namespace lockstep::jobs
