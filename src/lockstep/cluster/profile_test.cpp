#include "lockstep/cluster/profile.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"

namespace lockstep::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class ProfilesTest : public testing::Test {
 protected:
  Profiles profiles() const { return {folder_ / "own", folder_ / "project" / "below"}; }
  void in_project(const std::string& name, const std::string& text) const {
    make_folders(folder_ / "project" / ".lockstep" / "clusters");
    write_file_atomic(folder_ / "project" / ".lockstep" / "clusters" / (name + ".json"), text);
  }
  const test::TemporaryFolder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
};

TEST_F(ProfilesTest, LocalIsThereAndTheDefault) {
  const auto all = profiles().list();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].name, "local");
  EXPECT_TRUE(all[0].is_default);
  EXPECT_EQ(profiles().find("").profile.scheduler, "local");
}

TEST_F(ProfilesTest, ASavedProfileIsReadBackAndCanBeTheDefault) {
  Profile ours;
  ours.scheduler = "slurm";
  ours.nodes = 2;
  ours.workers = 4;
  ours.environment = {"A=1", "B=two words"};
  profiles().save("ours", ours);
  profiles().set_default("ours");
  const NamedProfile found = profiles().find("");
  EXPECT_EQ(found.name, "ours");
  EXPECT_TRUE(found.is_default);
  EXPECT_EQ(found.profile.workers, 4);
  EXPECT_THAT(found.profile.environment, ElementsAre("A=1", "B=two words"));
  profiles().remove("ours");
  EXPECT_EQ(profiles().find("").name, "local");
}

TEST_F(ProfilesTest, TheProjectsProfileHidesTheUsers) {
  profiles().save("ours", {.scheduler = "slurm", .partition = "mine"});
  in_project("ours", R"({"scheduler": "slurm", "partition": "theirs"})");
  EXPECT_EQ(profiles().find("ours").profile.partition, "theirs");
  EXPECT_THAT(message_of([&] { profiles().remove("ours"); }), HasSubstr("not one of the user's"));
}

TEST_F(ProfilesTest, WhatTheProjectsProfileWouldHideIsNotWritten) {
  in_project("ours", R"({"scheduler": "slurm", "partition": "theirs"})");
  EXPECT_THAT(message_of([&] { profiles().save("ours", {.scheduler = "slurm", .partition = "mine"}); }),
              testing::AllOf(HasSubstr("ours.json\" hides it"), HasSubstr("another name")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "own" / "ours.json"));
}

TEST_F(ProfilesTest, ErrorsNameFileAndReason) {
  in_project("bad", R"({"scheduler": "slurm", "nodez": 2})");
  EXPECT_THAT(message_of([&] { profiles().find("bad"); }), HasSubstr("bad.json"));
  EXPECT_THAT(message_of([&] { profiles().find("bad"); }), HasSubstr("nodes"));
  in_project("torn", R"({"scheduler": )");
  EXPECT_THAT(message_of([&] { profiles().find("torn"); }), HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(message_of([&] { profiles().find("lokal"); }), HasSubstr("did you mean local?"));
  EXPECT_THAT(message_of([&] { profiles().find("../own/x"); }), HasSubstr("cannot have the name"));
  EXPECT_THAT(message_of([&] { profiles().save("local", {}); }), HasSubstr("always there"));
}

TEST_F(ProfilesTest, ADamagedFileHidesNoOtherAndCanBeRemoved) {
  profiles().save("good", {.scheduler = "slurm"});
  write_file_atomic(folder_ / "own" / "bad.json", "{broken");
  const auto all = profiles().list();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_THAT(all[1].damage, HasSubstr("bad.json"));
  EXPECT_EQ(all[2].damage, "");
  write_file_atomic(folder_ / "own" / "bad.json", "[]");
  EXPECT_THAT(message_of([&] { profiles().find("bad"); }), HasSubstr("it is not a JSON object"));
  profiles().remove("bad");
  EXPECT_EQ(profiles().list().size(), 2U);
}

TEST_F(ProfilesTest, AMissingDefaultNamesItsFile) {
  profiles().save("good", {.scheduler = "slurm"});
  write_file_atomic(folder_ / "default-cluster", "gone\n");
  const std::string message = message_of([&] { profiles().find(""); });
  EXPECT_THAT(message, testing::AllOf(HasSubstr("default-cluster"), HasSubstr("\"gone\""),
                                      HasSubstr("lockstep cluster default local")));
}

TEST(CheckProfile, KnowsTheTimesAndSizesOfSlurm) {
  for (const char* time : {"30", "90:00", "1:30:00", "2-3", "2-3:04", "2-3:04:05", "UNLIMITED"})
    EXPECT_NO_THROW(check_profile({.scheduler = "slurm", .time = time})) << time;
  for (const char* time : {"abc", "1:99:99", "1:2:3:4", "1-", "-1", "1h", "1:", "2-30"})
    EXPECT_THROW(check_profile({.scheduler = "slurm", .time = time}), Error) << time;
  for (const char* memory : {"0", "4096", "16G", "500m", "1T", "16GB"})
    EXPECT_NO_THROW(check_profile({.scheduler = "slurm", .memory = memory})) << memory;
  for (const char* memory : {"lots", "G", "16X", "-1", "1.5G"})
    EXPECT_THROW(check_profile({.scheduler = "slurm", .memory = memory}), Error) << memory;
  EXPECT_NO_THROW(check_profile({.memory = "1.5G"}));
}

TEST(CheckProfile, RefusesWhatAScriptOrACommandLineWouldTakeForSomethingElse) {
  const auto refused = [](Profile profile) { return message_of([&] { check_profile(profile); }); };
  EXPECT_THAT(refused({.scheduler = "slurmm"}), HasSubstr("did you mean slurm?"));
  EXPECT_THAT(refused({.login = "-oProxyCommand=touch /tmp/x"}), HasSubstr("\"login\""));
  EXPECT_THAT(refused({.partition = "a;touch b"}), HasSubstr("\"partition\""));
  EXPECT_THAT(refused({.modules = {"gcc; reboot"}}), HasSubstr("\"modules\""));
  EXPECT_THAT(refused({.environment = {"no value"}}), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(refused({.secrets = {"KEY=abc"}}),
              testing::AllOf(HasSubstr("KEY"), testing::Not(HasSubstr("abc"))));
  EXPECT_THAT(refused({.job_folder = "~/jobs"}), HasSubstr("not an absolute path"));
  EXPECT_THAT(refused({.options = {"x"}}), HasSubstr("begins with '-'"));
  EXPECT_THAT(refused({.nodes = 4, .workers = 2}), HasSubstr("4 nodes"));
}

TEST(WorkerEnvironment, NamesTheInterfaceForBothLibraries) {
  const auto variables =
      worker_environment({.environment = {"A=1"}, .fast_multinode = "off", .network_interface = "ib0"});
  EXPECT_THAT(variables, ElementsAre("A=1", "NCCL_SOCKET_IFNAME=ib0", "GLOO_SOCKET_IFNAME=ib0",
                                     "NCCL_IB_DISABLE=1", "NCCL_NET=Socket"));
}

}  // namespace
}  // namespace lockstep::cluster
