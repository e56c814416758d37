// What torchrun, mpirun and srun tell, with the variables that they set.
#include <functional>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/launcher.h"

namespace lockstep::launch {
namespace {

std::string text_of_failure(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    return std::string(name_of(error.code())) + ": " + error.message();
  }
}

using Variables = std::map<std::string, std::string>;

std::optional<Launch> launch_of(const Variables& variables) {
  return read_launch(
      [&](const char* name) { return variables.contains(name) ? variables.at(name).c_str() : nullptr; });
}

Variables with(Variables variables, const Variables& others) {
  for (const auto& [name, value] : others) variables[name] = value;
  return variables;
}

const Variables kMpirun{{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"PMIX_NAMESPACE", "4021878785"}};
const Variables kSrun{{"SLURM_PROCID", "5"},
                      {"SLURM_STEP_NUM_TASKS", "8"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                      {"SLURM_JOB_ID", "4711"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_STEP_NODELIST", "node[07-08]"}};

TEST(Launch, ReadsTorchrunsVariables) {
  std::map<std::string, std::string> variables{{"RANK", "5"},
                                               {"WORLD_SIZE", "8"},
                                               {"LOCAL_RANK", "1"},
                                               {"LOCAL_WORLD_SIZE", "4"},
                                               {"MASTER_ADDR", "node-a"},
                                               {"MASTER_PORT", "29500"},
                                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                               {"TORCHELASTIC_RESTART_COUNT", "2"},
                                               {"GLOO_SOCKET_IFNAME", "eth1"}};
  const auto read = [&] {
    return read_launch(
        [&](const char* name) { return variables.contains(name) ? variables[name].c_str() : nullptr; });
  };
  const Launch launch = read().value();
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 4);
  EXPECT_EQ(launch.address, "node-a");
  EXPECT_EQ(launch.port, 29500);
  EXPECT_TRUE(launch.agent_store);
  EXPECT_EQ(launch.attempt, 2);
  EXPECT_EQ(launch.interface, "eth1");
  EXPECT_EQ(launch.secret, "");
  EXPECT_EQ(launch.lost_status, 1);
  variables["LOCKSTEP_SECRET"] = "0123456789abcdef";
  EXPECT_EQ(read()->secret, "0123456789abcdef");
  variables["LOCKSTEP_SECRET"] = "";
  EXPECT_EQ(text_of_failure([&] { read(); }),
            "invalid_option: the environment variable LOCKSTEP_SECRET has 0 characters, of at least 16: it "
            "could be guessed");
  variables.erase("LOCKSTEP_SECRET");
  variables["MASTER_PORT"] = "http";
  EXPECT_EQ(text_of_failure([&] { read(); }),
            "invalid_option: the environment variable MASTER_PORT cannot be \"http\": it must be a number "
            "from 1 to 65535");
  variables.clear();
  EXPECT_FALSE(read().has_value());
}

TEST(Launcher, MpirunOnOneMachineNeedsNothingMore) {
  const Launch launch = launch_of(kMpirun).value();
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.size, 2);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_EQ(launch.address, "127.0.0.1");
  EXPECT_FALSE(launch.agent_store);
  EXPECT_EQ(launch.port, launch_of(with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "0"}}))->port);
  EXPECT_NE(launch.port, launch_of(with(kMpirun, {{"PMIX_NAMESPACE", "4021878786"}}))->port);
}

TEST(Launcher, MpirunOnSeveralMachinesNeedsAMeetingPlace) {
  const Variables several = with(kMpirun, {{"OMPI_COMM_WORLD_SIZE", "4"}});
  try {
    launch_of(several);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(
        error.message(),
        "the environment variable MASTER_ADDR is missing: the ranks are on several machines and meet there");
    EXPECT_EQ(
        error.hint(),
        "set it for all ranks to the name or address of rank 0's machine: mpirun -x MASTER_ADDR=NAME ...");
  }
  const Launch launch =
      launch_of(with(several, {{"MASTER_ADDR", "node-a"}, {"MASTER_PORT", "1234"}})).value();
  EXPECT_EQ(launch.address, "node-a");
  EXPECT_EQ(launch.port, 1234);
}

TEST(Launcher, MpirunInAnAllocationOfSlurm) {
  const Variables first = with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "0"},
                                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                                         {"SLURM_JOB_ID", "4711"},
                                         {"SLURM_JOB_NODELIST", "node[07-08]"}});
  // Only the other machines' ranks are in a step of srun's, which starts one task on each of these machines.
  const Variables second = with(first, {{"OMPI_COMM_WORLD_RANK", "1"},
                                        {"SLURM_STEP_ID", "0"},
                                        {"SLURM_PROCID", "0"},
                                        {"SLURM_STEP_NUM_TASKS", "1"},
                                        {"SLURM_LOCALID", "0"},
                                        {"SLURM_STEP_NODELIST", "node08"}});
  EXPECT_EQ(launch_of(first)->address, "node07");
  EXPECT_EQ(launch_of(second)->address, "node07");
  EXPECT_EQ(launch_of(second)->rank, 1);
  EXPECT_EQ(launch_of(second)->port, launch_of(first)->port);
}

TEST(Launcher, MpichDoesNotNameItsJob) {
  const Variables hydra{
      {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  try {
    launch_of(hydra);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "the environment variable MASTER_PORT is missing: the launcher does not name its job");
    EXPECT_EQ(error.hint(),
              "set it for all ranks to a free port of rank 0's machine: mpiexec -genv MASTER_PORT 29500 ...");
  }
  EXPECT_EQ(launch_of(with(hydra, {{"MASTER_PORT", "29500"}}))->address, "127.0.0.1");
}

TEST(Launcher, SrunWithAProcessManagerIsSruns) {
  const Launch launch =
      launch_of(with(kSrun, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"PMI_JOBID", "4711.0"}})).value();
  EXPECT_EQ(launch.address, "node07");
  EXPECT_EQ(launch.local_size, 4);
}

TEST(Launcher, SrunsRanksMeetOnTheFirstMachine) {
  const Launch launch = launch_of(kSrun).value();
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 4);
  EXPECT_EQ(launch.address, "node07");
  EXPECT_EQ(launch_of(with(kSrun, {{"SLURM_STEP_NODELIST", "a[5,9],b"}}))->address, "a5");
  EXPECT_EQ(launch_of(with(kSrun, {{"SLURM_STEP_NODELIST", "a,b"}}))->address, "a");
  EXPECT_EQ(launch_of(with(kSrun, {{"SLURM_STEP_TASKS_PER_NODE", "8"}}))->address, "127.0.0.1");
  EXPECT_NE(launch_of(with(kSrun, {{"SLURM_STEP_ID", "1"}}))->port, launch.port);
  const Variables told = with(kSrun, {{"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.7"}});
  EXPECT_EQ(launch_of(told)->submitter, "10.0.0.7");
  EXPECT_EQ(launch_of(with(told, {{"MASTER_ADDR", "node-a"}}))->submitter, "")
      << "who names a place means it";
}

TEST(Launcher, ABatchScriptIsNoRank) {
  EXPECT_FALSE(
      launch_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "4711"}}).has_value());
}

TEST(Launcher, AStepOfOneTaskMayBeAShell) {
  const Variables shell = with(kSrun, {{"SLURM_PROCID", "0"},
                                       {"SLURM_STEP_NUM_TASKS", "1"},
                                       {"SLURM_LOCALID", "0"},
                                       {"SLURM_STEP_TASKS_PER_NODE", "1"}});
  const auto is_in_step = [](const Variables& variables) {
    return is_in_slurm_step(
        [&](const char* name) { return variables.contains(name) ? variables.at(name).c_str() : nullptr; });
  };
  EXPECT_FALSE(launch_of(shell).has_value());
  EXPECT_FALSE(launch_of(with(shell, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}})).has_value());
  EXPECT_TRUE(is_in_step(shell));
  EXPECT_FALSE(is_in_step({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}})) << "a batch script";
  for (const char* ours : {"LOCKSTEP_STOPPED_STATUS", "LOCKSTEP_LOST_STATUS"})
    EXPECT_EQ(launch_of(with(shell, {{ours, "9"}}))->size, 1) << ours;
  const Variables torchrun{
      {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "node-a"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(launch_of(with(shell, torchrun))->size, 1);
}

TEST(Launcher, TorchrunWithinSlurmIsTorchruns) {
  const Launch launch =
      launch_of(
          with(kSrun,
               {{"RANK", "0"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "node-a"}, {"MASTER_PORT", "29500"}}))
          .value();
  EXPECT_EQ(launch.size, 3);
  EXPECT_EQ(launch.port, 29500);
}

TEST(Launcher, NamesTheVariableThatCannotBe) {
  for (const char* text : {"8", "-1", "one", ""}) {
    try {
      launch_of(with(kSrun, {{"SLURM_PROCID", text}}));
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_TRUE(error.message().starts_with("the environment variable SLURM_PROCID ")) << error.message();
    }
  }
}

}  // namespace
}  // namespace lockstep::launch
