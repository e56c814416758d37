// What Slurm's commands are told, and what is read from them; with stand-ins for the commands, so that it
// runs where there is no Slurm. tests/cluster runs the real one.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/cluster.h"
#include "lockstep/cluster/internal/slurm.h"
#include "lockstep/cluster/nodes.h"
#include "lockstep/cluster/standings.h"
#include "lockstep/cluster/submitted_job.h"
#include "lockstep/jobs/job_state.h"

namespace lockstep::cluster {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(SlurmOptions, AskForMachinesAndForASignalBeforeTheEnd) {
  const auto options = sbatch_options(
      {.name = "digits-1",
       .folders = {"/jobs/1"},
       .resources = {.scheduler = "slurm", .partition = "gpu", .nodes = 2, .gpus = 2, .time = "30"},
       .after = {"7", "8"}});
  EXPECT_THAT(options, AllOf(Contains("--nodes=2"), Contains("--ntasks=4"), Contains("--ntasks-per-node=2"),
                             Contains("--gres=gpu:2"), Contains("--signal=B:USR1@60"), Contains("--requeue"),
                             Contains("--dependency=afterok:7:8"), Contains("--kill-on-invalid-dep=yes")));
}

TEST(SlurmOptions, TheSignalNeverComesBeforeTheScriptCanTakeIt) {
  const auto signal = [](const std::string& time, int64_t before) {
    return sbatch_options({.name = "x",
                           .folders = {"/jobs/1"},
                           .resources = {.scheduler = "slurm", .time = time, .signal_before = before}});
  };
  EXPECT_THAT(signal("1", 60), Contains("--signal=B:USR1@15"));
  EXPECT_THAT(signal("2", 60), Contains("--signal=B:USR1@60"));
  EXPECT_THAT(signal("0:30", 60), Contains("--signal=B:USR1@15"));
  EXPECT_THAT(signal("1:00:00", 3600), Contains("--signal=B:USR1@3555"));
  for (const char* time : {"", "0", "UNLIMITED"})
    EXPECT_THAT(signal(time, 60), Contains("--signal=B:USR1@60"));
}

TEST(SlurmTimeLimit, IsReadAsSbatchReadsIt) {
  const std::map<std::string, int64_t> limits{{"30", 1800},     {"1:30", 90},        {"1:30:00", 5400},
                                              {"2-3", 183'600}, {"2-3:04", 183'840}, {"2-3:04:05", 183'845},
                                              {"0", 0}};
  for (const auto& [time, seconds] : limits) EXPECT_EQ(seconds_of_time_limit(time), seconds) << time;
  for (const char* time : {"", "UNLIMITED", "1:2:3:4", "-1", "1-", "99999999999", "1h"})
    EXPECT_EQ(seconds_of_time_limit(time), std::nullopt) << time;
}

TEST(SlurmVersion, From25_11OnRequeuesAreExpedited) {
  EXPECT_FALSE(can_expedite("slurm-wlm 22.05.8\n"));
  EXPECT_FALSE(can_expedite("slurm 25.05.1\n"));
  EXPECT_TRUE(can_expedite("slurm 25.11.0\n"));
  EXPECT_TRUE(can_expedite("slurm 26.05.0-rc1\n"));
  EXPECT_FALSE(can_expedite(""));
}

TEST(SlurmScript, QuotesWhatAShellWouldRead) {
  const std::string script = batch_script({.name = "x",
                                           .command = {"/opt/lock step"},
                                           .folders = {"it's"},
                                           .resources = {.environment = {"A=$(touch x)"}}});
  EXPECT_THAT(script, HasSubstr("trap 'export LOCKSTEP_SIGNAL=USR1' USR1\n"));
  EXPECT_THAT(script, HasSubstr("export A='$(touch x)'"));
  EXPECT_THAT(script, HasSubstr("exec '/opt/lock step' 'it'\\''s'"));
}

TEST(SlurmScript, EachWorkerOfAPoolRunsTheCommandAndOutlivesTheOthers) {
  const Submission pool{.name = "x",
                        .command = {"/opt/program", "member"},
                        .folders = {"/pools/1"},
                        .resources = {.nodes = 2, .workers = 4, .cores = 3},
                        .may_requeue = false,
                        .on_each_worker = true};
  EXPECT_THAT(sbatch_options(pool),
              AllOf(Contains("--no-kill"), Contains("--no-requeue"), Not(Contains(HasSubstr("--signal")))));
  EXPECT_THAT(batch_script(pool), HasSubstr("exec srun --export=ALL --no-kill --kill-on-bad-exit=0 "
                                            "--ntasks=4 --cpus-per-task=3 /opt/program member /pools/1\n"));
}

TEST(SlurmScript, AnElementOfAnArrayHasItsOwnFolder) {
  const Submission both{.name = "x", .command = {"run"}, .folders = {"/jobs/1", "/jobs/2"}};
  EXPECT_THAT(sbatch_options(both), Contains("--array=0-1"));
  const std::string script = batch_script(both);
  EXPECT_THAT(script, HasSubstr("  /jobs/1\n  /jobs/2\n"));
  EXPECT_THAT(script, HasSubstr("exec run \"$folder\""));
}

TEST(SlurmQueue, ReadsStatesAndReasons) {
  const auto queue = read_queue(
      "7|PENDING|Resources||a\n8_1|RUNNING|None|node[1-2]|b|c\n9|PENDING|DependencyNeverSatisfied||d\nbad\n");
  ASSERT_EQ(queue.size(), 3U);
  EXPECT_EQ(queue.at("7").standing.phase, Phase::queued);
  EXPECT_EQ(queue.at("7").standing.reason, "Resources");
  EXPECT_EQ(queue.at("8_1").standing.nodes, "node[1-2]");
  EXPECT_EQ(queue.at("8_1").standing.phase, Phase::running);
  EXPECT_EQ(queue.at("9").standing.phase, Phase::failed);
}

TEST(SlurmPartitions, AreReadWithTheirSmallestNode) {
  const auto found = read_partitions(
      "main*|2|8|gpu:2|infinite\nmain*|1|4+|(null)|infinite\nlong|3|16|gpu:a100:4(S:0-1)|2-00:00:00\n");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].is_default);
  EXPECT_EQ(found[0].nodes, 3);
  EXPECT_EQ(found[0].cores, 4);
  EXPECT_EQ(found[0].gpus, 0);
  EXPECT_EQ(found[1].gpus, 4);
}

// Programs in a folder that is first in PATH.
class SlurmCommands : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::getenv("PATH");
    ::setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
    ::setenv("LOCKSTEP_CACHE", (folder_ / "cache").c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("LOCKSTEP_CACHE");
  }
  void program(const std::string& name, const std::string& script) const {
    const auto file = folder_ / name;
    std::ofstream(file)
        << "#!/bin/sh\n[ \"$1\" != --version ] || { echo slurm-wlm 22.05.8; exit 0; }\necho x >> "
        << (folder_ / (name + ".calls")).string() << "\n"
        << script;
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  size_t calls(const std::string& name) const {
    std::error_code none;
    return std::filesystem::exists(folder_ / (name + ".calls"), none)
               ? split(read_file(folder_ / (name + ".calls")), '\n').size() - 1
               : 0;
  }
  Submission submission() const {
    return {.name = "one", .command = {"true"}, .folders = {folder_}, .resources = {}};
  }

  const test::TemporaryFolder temporary_;
  const std::filesystem::path& folder_ = temporary_.path();
  std::string path_;
};

TEST_F(SlurmCommands, AJobThatSlurmTookAlthoughItsAnswerWasLostIsNotSubmittedTwice) {
  program("sbatch",
          "echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; "
          "exit 1\n");
  program("squeue", "echo 41\n");
  EXPECT_EQ(make_slurm({}, {})->submit(submission()), std::vector<std::string>{"41"});
  EXPECT_EQ(calls("sbatch"), 1U);
}

// A site's own sbatch may greet.
TEST_F(SlurmCommands, AJobWhoseNumberCannotBeReadIsLookedFor) {
  program("sbatch", "cat > /dev/null; echo Welcome\n");
  program("squeue", "echo 41\n");
  EXPECT_EQ(make_slurm({}, {})->submit(submission()), std::vector<std::string>{"41"});
  program("squeue", "true\n");
  EXPECT_THROW(make_slurm({}, {})->submit(submission()), Error);
  EXPECT_EQ(calls("sbatch"), 2U);
}

TEST_F(SlurmCommands, WithoutACacheAJobIsSubmittedAndSeen) {
  ::setenv("LOCKSTEP_CACHE", "/proc/no/folder", 1);
  program("sbatch", "cat > /dev/null; echo 12\n");
  program("squeue", "echo '12|RUNNING|None|node1|one'\n");
  const auto slurm = make_slurm({}, {});
  EXPECT_EQ(slurm->submit(submission()), std::vector<std::string>{"12"});
  EXPECT_EQ(slurm->states({"12"})[0].phase, Phase::running);
}

TEST_F(SlurmCommands, AJobThatAnotherJobSubmitsHasNoneOfItsNumbers) {
  program("sbatch", "cat > /dev/null; env > " + (folder_ / "variables").string() + "; echo 12\n");
  const std::map<std::string, std::string> outer{
      {"SLURM_JOB_ID", "5"},        {"SLURM_ARRAY_JOB_ID", "4"}, {"SLURM_RESTART_COUNT", "1"},
      {"SLURM_MEM_PER_CPU", "100"}, {"LOCKSTEP_SIGNAL", "USR1"}, {"SLURM_CONF", "/etc/slurm.conf"}};
  for (const auto& [name, value] : outer) ::setenv(name.c_str(), value.c_str(), 1);
  EXPECT_EQ(make_slurm({}, {})->submit(submission()), std::vector<std::string>{"12"});
  for (const auto& [name, value] : outer) ::unsetenv(name.c_str());
  const std::vector<std::string> variables = split(read_file(folder_ / "variables"), '\n');
  EXPECT_THAT(variables, AllOf(Contains("SLURM_CONF=/etc/slurm.conf"), Contains("LOCKSTEP_SIGNAL=")));
  for (const char* name :
       {"SLURM_JOB_ID=", "SLURM_ARRAY_JOB_ID=", "SLURM_RESTART_COUNT=", "SLURM_MEM_PER_CPU="})
    EXPECT_THAT(variables, Not(Contains(testing::StartsWith(name))));
}

TEST_F(SlurmCommands, AJobThatARankSubmitsIsNoRank) {
  program("sbatch", "cat > /dev/null; env > " + (folder_ / "variables").string() + "; echo 12\n");
  const auto variables_of = [&](const std::vector<const char*>& names) {
    for (const char* name : names) ::setenv(name, "1", 1);
    make_slurm({}, {})->submit(submission());
    for (const char* name : names) ::unsetenv(name);
    return split(read_file(folder_ / "variables"), '\n');
  };
  const auto of_rank = variables_of({"RANK", "WORLD_SIZE", "MASTER_PORT"});
  for (const char* name : {"RANK=1", "WORLD_SIZE=1", "MASTER_PORT=1"})
    EXPECT_THAT(of_rank, Not(Contains(name)));
  EXPECT_THAT(variables_of({"MASTER_PORT"}), Contains("MASTER_PORT=1")) << "the user's own";
}

TEST_F(SlurmCommands, TrainingsAndProgramsAreDifferentArrays) {
  program("sbatch", "cat > /dev/null; echo \"$@\" >> " + (folder_ / "words").string() + "; echo 12\n");
  std::vector<jobs::JobPaths> made;
  for (const char* word : {"/bin/true", "train", "train", "/bin/true"}) {
    jobs::JobSpec spec{.name = "one", .command = {word}, .scheduler = "slurm"};
    if (spec.command.front() == "train") spec.run_folder = "run";
    made.push_back(jobs::make_job(folder_ / "jobs", spec, [](const jobs::JobPaths&) {}));
  }
  submit_jobs(made, {.profile = {.scheduler = "slurm", .program = "lockstep"}});
  const std::vector<std::string> words = split(read_file(folder_ / "words"), '\n');
  ASSERT_GE(words.size(), 2U);
  EXPECT_THAT(words[0], AllOf(HasSubstr("--requeue"), HasSubstr("--array=0-1")));
  EXPECT_THAT(words[1], AllOf(HasSubstr("--no-requeue"), HasSubstr("--array=0-1")));
  for (const jobs::JobPaths& job : made)
    EXPECT_EQ(submitted_id(job, jobs::read_spec(job)).substr(0, 3), "12_");
}

TEST_F(SlurmCommands, ARefusalIsToldAtOnce) {
  program("sbatch", "echo 'sbatch: error: invalid partition specified: gpuu' >&2; exit 1\n");
  program("squeue", "exit 1\n");
  try {
    make_slurm({}, {})->submit(submission());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cluster);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("gpuu"), HasSubstr("sinfo")));
  }
  EXPECT_EQ(calls("sbatch"), 1U);
  EXPECT_EQ(calls("squeue"), 0U);
}

TEST_F(SlurmCommands, ManyLooksAreOneSqueue) {
  program("squeue", "echo '7|RUNNING|None|node1|one'\n");
  for (int i = 0; i < 5; ++i) {
    const auto standings = make_slurm({}, {})->states({"7", "8"});
    EXPECT_EQ(standings[0].phase, Phase::running);
    EXPECT_EQ(standings[1].phase, Phase::unknown);
  }
  EXPECT_EQ(calls("squeue"), 1U);
}

TEST_F(SlurmCommands, AControllerThatDoesNotAnswerIsNotAskedByEachLook) {
  program("squeue", "echo 'squeue: error: Unable to contact slurm controller' >&2; exit 1\n");
  for (int i = 0; i < 5; ++i) {
    try {
      make_slurm({}, {})->states({"7"});
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("Unable to contact"), HasSubstr("scontrol ping")));
    }
  }
  EXPECT_EQ(calls("squeue"), 1U);
}

TEST_F(SlurmCommands, AStopDoesNotWaitForSqueueAndIsNoAnswerForOthers) {
  program("squeue", "sleep 600\n");
  std::stop_source stop;
  const std::jthread stopper([&] {
    while (calls("squeue") == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    stop.request_stop();
  });
  const auto slurm = make_slurm({}, {});
  slurm->set_stop(stop.get_token());
  try {
    slurm->states({"7"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
  }
  program("squeue", "echo '7|RUNNING|None|node1|one'\n");
  EXPECT_EQ(make_slurm({}, {})->states({"7"})[0].phase, Phase::running);
}

TEST_F(SlurmCommands, AStopDoesNotWaitForSinfo) {
  program("sinfo", "sleep 600\n");
  std::stop_source stop;
  const std::jthread stopper([&] {
    while (calls("sinfo") == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    stop.request_stop();
  });
  const Cluster cluster({.name = "ours", .profile = {.scheduler = "slurm"}});
  EXPECT_FALSE(cluster.wait({.stop = stop.get_token()}));
}

TEST_F(SlurmCommands, AJobThatIsCancelledBetweenTwoAttemptsIsCancelled) {
  program("sbatch", "cat > /dev/null; echo 12\n");
  program("scancel", "true\n");
  const Profile profile{.scheduler = "slurm", .program = "lockstep"};
  const jobs::JobPaths job = jobs::make_job(
      folder_ / "jobs", {.command = {"train"}, .run_folder = "run", .scheduler = "slurm"},
      [&](const jobs::JobPaths& hidden) { write_file_atomic(hidden.profile(), to_json(profile).dump()); });
  submit_jobs({job}, {.profile = profile});
  jobs::end_attempt(job, {.end = jobs::AttemptEnd::lost, .attempt = jobs::begin_attempt(job)});
  EXPECT_TRUE(cancel_job(job, {}));
  EXPECT_EQ(jobs::state_of(job, jobs::read_spec(job)).state, jobs::JobState::cancelled);
  EXPECT_EQ(jobs::read_attempt(job, 1)->end, jobs::AttemptEnd::lost);
}

// Slurm forgets it some minutes after its end, and would refuse to wait for it.
TEST_F(SlurmCommands, AJobThatHasEndedWellIsNotWaitedFor) {
  program("sbatch", "cat > /dev/null; echo \"$@\" >> " + (folder_ / "words").string() + "; echo 12\n");
  const Profile profile{.scheduler = "slurm", .program = "lockstep"};
  const auto make = [&](std::vector<std::string> after) {
    return jobs::make_job(
        folder_ / "jobs", {.command = {"true"}, .scheduler = "slurm", .after = std::move(after)},
        [&](const jobs::JobPaths& hidden) { write_file_atomic(hidden.profile(), to_json(profile).dump()); });
  };
  const jobs::JobPaths before = make({});
  const jobs::JobPaths job = make({before.id()});
  EXPECT_THROW(submit_jobs({job}, {.profile = profile}), Error);  // `before` was never submitted
  submit_jobs({before}, {.profile = profile});
  submit_jobs({job}, {.profile = profile});
  jobs::end_attempt(before, {.end = jobs::AttemptEnd::ended, .attempt = jobs::begin_attempt(before)});
  submit_jobs({job}, {.profile = profile});
  const std::vector<std::string> words = split(read_file(folder_ / "words"), '\n');
  ASSERT_GE(words.size(), 3U);
  EXPECT_THAT(words[1], HasSubstr("--dependency=afterok:12"));
  EXPECT_THAT(words[2], Not(HasSubstr("--dependency")));
}

TEST_F(SlurmCommands, ADamagedJobDoesNotHideTheStateOfOthers) {
  program("sbatch", "cat > /dev/null; echo 12\n");
  program("squeue", "echo '12|RUNNING|None|node1|one'\n");
  const Profile profile{.scheduler = "slurm", .program = "lockstep"};
  std::vector<jobs::JobPaths> made;
  for (int i = 0; i < 2; ++i) {
    made.push_back(jobs::make_job(
        folder_ / "jobs", {.command = {"true"}, .profile = "ours", .scheduler = "slurm"},
        [&](const jobs::JobPaths& hidden) { write_file_atomic(hidden.profile(), to_json(profile).dump()); }));
    submit_jobs({made.back()}, {.profile = profile});
  }
  write_file_atomic(made[0].folder / "submission.json", "{");
  std::vector<jobs::JobView> views = jobs::list_jobs(folder_ / "jobs");
  const std::vector<std::string> failures = add_standings(views);
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_THAT(failures[0], AllOf(HasSubstr("job 1"), HasSubstr("submission.json")));
  EXPECT_EQ(views[1].state, jobs::JobState::running);
}

TEST_F(SlurmCommands, AJobJustSubmittedIsKnownBeforeTheNextSqueue) {
  program("squeue", "echo '7|RUNNING|None|node1|one'\n");
  program("sbatch", "cat > /dev/null; echo 12\n");
  const auto slurm = make_slurm({}, {});
  EXPECT_EQ(slurm->states({"12"})[0].phase, Phase::unknown);
  EXPECT_EQ(slurm->submit(submission()), std::vector<std::string>{"12"});
  EXPECT_EQ(slurm->states({"12"})[0].phase, Phase::queued);
  EXPECT_EQ(calls("squeue"), 1U);
}

TEST_F(SlurmCommands, AJobWhoseAnswerNobodyReadIsFoundByItsName) {
  program("squeue", "echo '7|RUNNING|None|node1|one'; echo '9_1|PENDING|None||many'\n");
  const auto slurm = make_slurm({}, {});
  EXPECT_EQ(slurm->find("one", 0), "7");
  EXPECT_EQ(slurm->find("many", 3), "9_3");
  EXPECT_EQ(slurm->find("other", 0), "");
}

TEST_F(SlurmCommands, WithoutSlurmTheErrorSaysSo) {
  ::setenv("PATH", folder_.c_str(), 1);
  try {
    make_slurm({}, {})->submit(submission());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("login"));
  }
}

}  // namespace
}  // namespace lockstep::cluster
