#include "lockstep/cluster/ssh.h"

#include <cstdlib>
#include <filesystem>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cluster {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class SharedConnection : public testing::Test {
 protected:
  static std::vector<std::string> words_with_caches_in(const std::filesystem::path& folder) {
    ::setenv("LOCKSTEP_CACHE", folder.c_str(), 1);
    const std::vector<std::string> words = ssh_words({.login = "host", .words = {"true"}});
    ::unsetenv("LOCKSTEP_CACHE");
    return words;
  }
  // Short, because the path of a socket is.
  const std::string place_ = "/tmp/lockstep-" + std::to_string(::getpid());
  void TearDown() override { std::filesystem::remove_all(place_); }
};

// ssh reads the value of an option as a line of its configuration.
TEST_F(SharedConnection, IsInAFolderOfAnyName) {
  EXPECT_THAT(words_with_caches_in(place_ + "/a b%"),
              Contains("ControlPath=\"" + place_ + "/a b%%/ssh/%C\""));
  EXPECT_THAT(words_with_caches_in(place_ + "/${x}\""), Not(Contains(HasSubstr("ControlPath"))));
}

}  // namespace
}  // namespace lockstep::cluster
