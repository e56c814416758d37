#include "lockstep/jobs/job_folder.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/jobs/attempt_end.h"
#include "lockstep/jobs/job_change.h"
#include "lockstep/jobs/job_list.h"
#include "lockstep/jobs/job_lock.h"
#include "lockstep/jobs/job_state.h"
#include "lockstep/jobs/left_folders.h"
#include "lockstep/jobs/local_attempt.h"
#include "lockstep/jobs/local_queue.h"
#include "lockstep/record/process_identity.h"

namespace lockstep::jobs {
namespace {

using test::TemporaryFolder;
using testing::Contains;
using testing::ElementsAre;

TEST(JobFolder, KeepsWhatItIsToDo) {
  const TemporaryFolder root;
  const JobSpec spec{
      .name = "nets", .command = {"echo", "a b", "\xff"}, .after = {"3", "4"}, .fetch = {"*.csv"}};
  const JobPaths paths =
      make_job(root.path(), spec, [](const JobPaths& hidden) { write_file_quick(hidden.profile(), "{}"); });
  EXPECT_EQ(paths.id(), "1");
  EXPECT_TRUE(std::filesystem::exists(paths.profile()));
  EXPECT_EQ(std::filesystem::status(paths.spec()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const JobSpec read = read_spec(paths);
  EXPECT_EQ(read.name, "nets");
  EXPECT_EQ(read.command[1], "a b");
  EXPECT_THAT(read.after, ElementsAre("3", "4"));
  EXPECT_EQ(make_job(root.path(), spec).id(), "2");
}

TEST(JobFolder, GivesNoNumberTwice) {
  const TemporaryFolder root;
  const JobSpec spec{.command = {"true"}};
  std::vector<std::jthread> clients;
  for (int i = 0; i < 4; ++i)
    clients.emplace_back([&] {
      for (int k = 0; k < 10; ++k) make_job(root.path(), spec);
    });
  clients.clear();
  for (int i = 1; i <= 40; ++i) EXPECT_EQ(read_spec({root.path() / std::to_string(i)}).command[0], "true");
  std::filesystem::remove_all(root.path() / "40");
  EXPECT_EQ(make_job(root.path(), spec).id(), "41");
}

// Processes of several machines and containers may have one number, and write the same file at a time.
TEST(JobFolder, WritesAFileBesideAnotherProcessOfTheSameNumber) {
  const TemporaryFolder root;
  const std::filesystem::path file = root.path() / "progress.json";
  std::filesystem::create_directory(file.string() + "." + std::to_string(::gettid()) + ".part");
  write_file_quick(file, "0.5");
  EXPECT_EQ(read_file(file), "0.5");
}

TEST(JobFolder, LeavesNothingIfItCannotBeMade) {
  const TemporaryFolder root;
  EXPECT_THROW(make_job(root.path(), {}, [](const JobPaths&) { throw Error(ErrorCode::io, "no"); }), Error);
  EXPECT_TRUE(std::filesystem::is_empty(root.path()));
}

void remove_left_folders(const std::filesystem::path& root) {
  for (const auto& entry : std::filesystem::directory_iterator(root)) remove_if_left(entry);
}

// As a command leaves it that is killed.
TEST(LeftFolders, AreRemovedWhenTheirMakersAreGone) {
  const TemporaryFolder root;
  const auto folders = [&] {
    return std::distance(std::filesystem::directory_iterator(root.path()),
                         std::filesystem::directory_iterator());
  };
  root.write("7/attempt-1/diary", "");
  const pid_t child = ::fork();
  if (child == 0) {
    take_out(root.path() / "7");
    make_job(root.path(), {.command = {"true"}}, [](const JobPaths&) { ::_exit(0); });
  }
  ::waitpid(child, nullptr, 0);
  std::filesystem::create_directory(root.path() / ".gone-0123456789abcdef");  // all but itself was deleted
  EXPECT_EQ(folders(), 3);
  const JobPaths job = make_job(root.path(), {.command = {"true"}}, [&](const JobPaths& hidden) {
    remove_left_folders(root.path());
    EXPECT_TRUE(std::filesystem::exists(hidden.folder));
  });
  EXPECT_TRUE(has_spec(job));
  EXPECT_EQ(folders(), 2);  // the job and .last
  EXPECT_FALSE(std::filesystem::exists(job.folder / "maker.json"));
  const std::filesystem::path gone = take_out(job.folder);
  remove_left_folders(root.path());
  EXPECT_TRUE(has_spec({gone}));  // this process deletes it
  remove_taken_out(gone);
  remove_taken_out(gone);  // another one has done so meanwhile
  EXPECT_EQ(folders(), 1);
}

TEST(LeftFolders, OfAProcessBeforeARestartOfItsMachineAreRemoved) {
  const TemporaryFolder root;
  record::ProcessIdentity maker = record::this_process();
  maker.boot = "another start";
  const auto sign = [&](const std::string& folder) {
    root.write(folder + "/maker.json", to_json(maker).dump());
    return root.path() / folder;
  };
  const auto here = sign(".new-0123456789abcdef"), deleted = sign(".gone-0123456789abcdef");
  maker.host = "another machine";
  const auto elsewhere = sign(".new-00000000000000ff"), deleted_there = sign(".gone-00000000000000ff");
  remove_left_folders(root.path());
  EXPECT_FALSE(std::filesystem::exists(here) || std::filesystem::exists(deleted));
  EXPECT_TRUE(std::filesystem::exists(elsewhere) && std::filesystem::exists(deleted_there));
}

TEST(LeftFolders, AreRemovedByAQueueThatIsTidied) {
  const TemporaryFolder root;
  record::ProcessIdentity maker = record::this_process();
  maker.boot = "another start";
  root.write(".new-0123456789abcdef/maker.json", to_json(maker).dump());
  root.write("letters/maker.json", "");
  LocalQueue(root.path()).tidy();
  EXPECT_FALSE(std::filesystem::exists(root.path() / ".new-0123456789abcdef"));
  EXPECT_TRUE(std::filesystem::exists(root.path() / "letters/maker.json"));
}

// The queue is locked while a maker that has begun long ago makes its job, and is killed.
TEST(LeftFolders, AQueueThatIsTidiedFindsAJobThatWasMadeWhileItWaited) {
  const TemporaryFolder root;
  const LocalQueue queue(root.path());
  const std::filesystem::path folder = queue.log_file().parent_path(), intent = folder / "intent-0123";
  write_file_quick(intent, "");
  std::filesystem::last_write_time(intent,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  auto lock = std::optional(FileLock::take(folder / "lock"));
  std::jthread tidier([&] { queue.tidy(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // most likely it waits now
  make_job(root.path(), {.command = {"true"}, .host = host_name()});
  lock.reset();
  tidier.join();
  EXPECT_FALSE(std::filesystem::exists(intent));
  EXPECT_FALSE(queue.is_empty());
}

// $LOCKSTEP_JOBS may be a folder with other things.
TEST(LeftFolders, AreNotThoseOfAUser) {
  const TemporaryFolder root, other;
  record::ProcessIdentity maker = record::this_process();
  maker.boot = "another start";
  const std::string sign = to_json(maker).dump();
  const std::vector<std::string> names{".gone-fishing", ".new-york", ".gone-0123456789abcdefg",
                                       ".new-0123456789ABCDEF", ".gone-0123456789abcde"};
  for (const std::string& name : names) root.write(name + "/maker.json", sign);
  root.write(".gone-0123456789abcdef/letters", "");
  other.write("maker.json", sign);
  std::filesystem::create_symlink(other.path(), root.path() / ".gone-00000000000000ff");
  remove_left_folders(root.path());
  for (const std::string& name : names)
    EXPECT_TRUE(std::filesystem::exists(root.path() / name / "maker.json")) << name;
  EXPECT_TRUE(std::filesystem::exists(root.path() / ".gone-0123456789abcdef/letters"));
  EXPECT_TRUE(std::filesystem::exists(root.path() / ".gone-00000000000000ff/maker.json"));
}

TEST(JobFolder, TellsWhatIsDamaged) {
  const TemporaryFolder root;
  const JobPaths paths{root.path() / "1"};
  root.write("1/job.json", "{\"command\": [");
  try {
    read_spec(paths);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
    EXPECT_THAT(error.message(), testing::HasSubstr(paths.spec().string()));
  }
  root.write("1/result.json", "");
  EXPECT_FALSE(read_result(paths));
}

TEST(JobFolder, CountsTheNewestAttemptOnly) {
  const TemporaryFolder root;
  const JobPaths paths = make_job(root.path(), {.command = {"true"}});
  EXPECT_EQ(begin_attempt(paths), 1);
  end_attempt(paths, {.end = AttemptEnd::lost, .attempt = 1});
  EXPECT_FALSE(read_result(paths));
  EXPECT_EQ(begin_attempt(paths), 2);
  end_attempt(paths, {.end = AttemptEnd::ended, .attempt = 1});  // an orphan of the first
  EXPECT_FALSE(read_result(paths));
  end_attempt(paths, {.end = AttemptEnd::failed, .attempt = 2, .status = 3});
  ASSERT_TRUE(read_result(paths));
  EXPECT_EQ(read_result(paths)->status, 3);
  forget_result(paths);
  EXPECT_FALSE(read_result(paths));
  EXPECT_EQ(begin_attempt(paths), 3);
}

TEST(JobState, FollowsFromFilesAndTheLock) {
  const TemporaryFolder root;
  const JobSpec spec{.command = {"true"}};
  const JobPaths paths = make_job(root.path(), spec);
  const auto state = [&] { return state_of(paths, spec).state; };
  EXPECT_EQ(state(), JobState::queued);
  {
    const auto lock = FileLock::try_take(paths.lock());
    ASSERT_TRUE(lock);
    begin_attempt(paths);
    EXPECT_EQ(state(), JobState::running);
    EXPECT_FALSE(FileLock::try_take(paths.lock()));
  }
  EXPECT_EQ(state(), JobState::lost);
  end_attempt(paths, {.end = AttemptEnd::lost, .attempt = 1});
  EXPECT_EQ(state(), JobState::queued);
  end_attempt(paths, {.end = AttemptEnd::cancelled, .attempt = 1});
  EXPECT_EQ(state(), JobState::cancelled);
}

// A program that never ran is started again, also one that must not run twice.
TEST(JobState, AnAttemptWhoseCommandWasNotStartedIsLost) {
  const TemporaryFolder root;
  const JobSpec spec{.command = {"true"}};
  const JobPaths paths = make_job(root.path(), spec);
  begin_attempt(paths);
  EXPECT_EQ(result_of_lost(paths, spec, 1).end, AttemptEnd::lost);
  root.write("1/attempt-1/diary", "");  // made before the command is started
  EXPECT_EQ(result_of_lost(paths, spec, 1).end, AttemptEnd::lost);
  write_file_quick(paths.started(1), to_json(Started{}).dump());
  EXPECT_EQ(result_of_lost(paths, spec, 1).end, AttemptEnd::failed);
}

TEST(JobChange, IsMadeByOneAtATime) {
  const TemporaryFolder root;
  const JobPaths paths = make_job(root.path(), {.command = {"true"}});
  std::optional<FileLock> lock = take_to_change(paths);
  try {
    take_to_change(paths);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("another command"));
  }
  std::filesystem::rename(paths.folder, root.path() / ".gone");
  lock.reset();
  try {
    take_to_change(paths);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("was deleted"));
  }
}

TEST(JobChange, WaitsForACommandThatIsAboutToEnd) {
  const TemporaryFolder root;
  const JobPaths paths = make_job(root.path(), {.command = {"true"}});
  std::optional<FileLock> lock = take_to_change(paths);
  const std::jthread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    lock.reset();
  });
  EXPECT_NO_THROW(take_to_change(paths));
}

TEST(AttemptEnd, AJobThatWasCancelledOrDeletedIsNotWanted) {
  const TemporaryFolder root;
  const JobPaths paths = make_job(root.path(), {.command = {"true"}});
  EXPECT_TRUE(is_wanted(paths));
  mark_cancelled(paths);
  EXPECT_FALSE(is_wanted(paths));
  EXPECT_FALSE(is_wanted({root.path() / "2"}));
}

// On whatever machine it runs.
TEST(JobState, SaysThatAResultWaitsForSpace) {
  const TemporaryFolder root;
  const JobPaths paths = make_job(root.path(), {.command = {"true"}, .scheduler = "slurm"});
  const AttemptResult result{.end = AttemptEnd::ended, .attempt = begin_attempt(paths)};
  int calls = 0;
  EXPECT_EQ(write_when_there_is_space(
                paths, result.attempt, {SIGTERM},
                [&] {
                  EXPECT_EQ(view_of(paths).reason.find("waits for space") != std::string::npos, calls > 0);
                  if (++calls == 1) throw errno_error(ENOSPC, "write", "result");
                  end_attempt(paths, result);
                }),
            0);
  EXPECT_EQ(view_of(paths).state, JobState::ended);
  EXPECT_EQ(view_of(paths).reason, "");
}

TEST(JobQueue, IsEmptyWhenItsJobsAreOver) {
  const TemporaryFolder root;
  const LocalQueue queue(root.path());
  EXPECT_TRUE(queue.is_empty());
  const JobPaths paths = make_job(root.path(), {.command = {"true"}});
  queue.add(paths);
  EXPECT_FALSE(queue.is_empty());
  end_job(paths, AttemptEnd::failed, "");
  EXPECT_TRUE(queue.is_empty());
}

TEST(JobLock, IsHeldByAnOrphan) {
  const TemporaryFolder root;
  const std::filesystem::path file = root.path() / "lock";
  auto lock = FileLock::try_take(file);
  ASSERT_TRUE(lock);
  std::array<int, 2> end{};
  ASSERT_EQ(::pipe(end.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::close(end[1]);
    ::_exit(static_cast<int>(::read(end[0], &byte, 1)));
  }
  lock.reset();
  EXPECT_TRUE(is_held(file));
  ::close(end[1]);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(is_held(file));
  ::close(end[0]);
}

TEST(JobCommand, ResumesARunThatHasBegun) {
  const TemporaryFolder root;
  const JobSpec spec{.command = {"lockstep", "train", "photos"},
                     .run_folder = (root.path() / "run").string()};
  EXPECT_THAT(command_of(spec), ElementsAre("lockstep", "train", "photos", "--output", spec.run_folder));
  root.write("run/options.json", "{}");
  EXPECT_THAT(command_of(spec),
              ElementsAre("lockstep", "train", "photos", "--output", spec.run_folder, "--resume"));
  const JobPaths paths = make_job(root.path(), {.command = {"lockstep", "train"}, .run_folder = "run"});
  EXPECT_EQ(read_spec(paths).run_folder, (paths.folder / "run").string());
}

TEST(JobCommand, IsToldWhichAttemptItIs) {
  const JobSpec spec{.paths = {"/opt/tools"}, .shipped = {"tool"}};
  const auto variables = job_environment({"/jobs/7"}, spec, 2);
  EXPECT_THAT(variables, Contains("LOCKSTEP_JOB=/jobs/7"));
  EXPECT_THAT(variables, Contains("TORCHELASTIC_RESTART_COUNT=1"));
  EXPECT_THAT(variables, Contains(testing::StartsWith("PATH=/jobs/7/shipped:/opt/tools:")));
}

TEST(JobAttempts, EndWithoutProgress) {
  const TemporaryFolder root;
  const JobSpec run{.command = {"lockstep"}, .run_folder = "run"},
      other{.command = {"true"}, .requeue = true};
  const JobPaths paths = make_job(root.path(), run);
  for (int64_t attempt = 1; attempt <= 3; ++attempt) {
    begin_attempt(paths);
    EXPECT_EQ(is_worth_another(paths, run, attempt, 7), attempt < 3);
    end_attempt(paths, {.end = AttemptEnd::lost, .attempt = attempt, .step = 7});
  }
  EXPECT_TRUE(is_worth_another(paths, run, 3, 8));
  EXPECT_TRUE(is_worth_another(paths, other, 9, -1));
  EXPECT_FALSE(is_worth_another(paths, other, 10, -1));
  forget_result(paths);
  EXPECT_TRUE(is_worth_another(paths, run, 4, 7));
}

}  // namespace
}  // namespace lockstep::jobs
