#include "lockstep/base/test_folder.h"
#include "lockstep/record/state.h"

#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/test_process.h"

namespace lockstep::record {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kDay = 86'400;

class StateTest : public testing::Test {
 protected:
  /// Of a process that is elsewhere, so that only the file's age tells.
  static Status elsewhere() {
    Status status;
    status.step = 12;
    status.writer = {.host = "node7",
                     .boot = "another start",
                     .process_space = "pid:[1]",
                     .process = 1,
                     .process_start = 1};
    return status;
  }
  // By the file system's time.
  void set_age(const std::string& name, double seconds) {
    const std::filesystem::path clock = temporary_.write("clock", "x");
    struct stat now {};
    ASSERT_EQ(::stat(clock.c_str(), &now), 0);
    std::filesystem::remove(clock);
    timespec then = now.st_mtim;
    then.tv_sec -= static_cast<time_t>(seconds);
    const std::array times{then, then};
    ASSERT_EQ(::utimensat(AT_FDCWD, (run_ / name).c_str(), times.data(), 0), 0) << name;
  }
  void put_events(const std::vector<Event>& events, int64_t attempt = 0) {
    EventLog log(run_, 0, attempt);
    for (Event event : events) log.write(event);
  }
  void put_lock(int64_t process, const std::string& host = host_name()) {
    temporary_.write("lock", "process " + std::to_string(process) + " on " + host + "\n");
  }
  RunState state() { return state_of(run_).state; }

  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path& run_ = temporary_.path();
};

TEST_F(StateTest, IsWhatTheWriterSays) {
  EXPECT_THROW(state_of(run_), Error);
  write_status(run_, {.state = RunState::queued, .reason = "waits"});
  EXPECT_EQ(state(), RunState::queued);
  for (const RunState last : {RunState::ended, RunState::stopped, RunState::failed}) {
    StatusWriter writer(run_, {.attempt = 1, .total_steps = 9});
    writer.set_step(4, 2);
    EXPECT_EQ(state(), RunState::running);
    writer.set_state(RunState::stopping, "Ctrl-C");
    EXPECT_EQ(state(), RunState::stopping);
    writer.set_state(last, "because", "hint");
    const StateOfRun found = state_of(run_);
    EXPECT_EQ(found.state, last);
    EXPECT_EQ(found.reason, "because");
    EXPECT_EQ(found.hint, "hint");
    EXPECT_EQ(found.attempt, 1);
    EXPECT_EQ(found.step, 4);
    EXPECT_EQ(found.epoch, 2);
    EXPECT_EQ(found.total_steps, 9);
    EXPECT_EQ(found.host, host_name());
  }
  set_age("status.json", 30 * kDay);
  EXPECT_EQ(state(), RunState::failed);
}

TEST_F(StateTest, AKilledWriterIsLostAtOnce) {
  std::unique_ptr<StatusWriter> writer;
  test::WaitingProcess process([&] { writer = std::make_unique<StatusWriter>(run_, Status{}); });
  EXPECT_EQ(state(), RunState::running);
  process.kill();
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(process.id()), &ended, WEXITED | WNOWAIT);
  EXPECT_EQ(state(), RunState::lost);  // its parent has not asked for it yet
  process.reap();
  EXPECT_EQ(state(), RunState::lost);
  EXPECT_EQ(state_of(run_).reason, "the process is gone");
}

TEST_F(StateTest, APausedWriterRuns) {
  std::unique_ptr<StatusWriter> writer;
  test::WaitingProcess process([&] { writer = std::make_unique<StatusWriter>(run_, Status{}); });
  process.signal(SIGSTOP);
  ::waitpid(process.id(), nullptr, WUNTRACED);
  set_age("status.json", kDay);
  EXPECT_EQ(state(), RunState::running);
}

TEST_F(StateTest, ALaterProcessWithTheNumberIsNotTheWriter) {
  Status status;
  status.writer = this_process();
  write_status(run_, status);
  EXPECT_EQ(state(), RunState::running);
  ++status.writer.process_start;
  write_status(run_, status);
  EXPECT_EQ(state(), RunState::lost);
}

TEST_F(StateTest, AWriterThatCannotBeLookedForIsJudgedByAge) {
  std::vector<Status> others(4, elsewhere());
  others[1].writer = others[2].writer = this_process();
  others[1].writer.boot = "another start";
  others[2].writer.process_space = "pid:[1]";
  others[3].writer = {};  // another program, which does not say
  for (Status status : others) {
    // The writer's clock does not count.
    for (const double wrong_by : {-3600.0, 0.0, 3600.0}) {
      status.written = wrong_by + 1.7e9;
      write_status(run_, status);
      EXPECT_EQ(state(), RunState::running);
      set_age("status.json", 25);
      EXPECT_EQ(state(), RunState::running);
      set_age("status.json", 31);
      const StateOfRun found = state_of(run_);
      EXPECT_EQ(found.state, RunState::lost);
      EXPECT_THAT(found.reason, HasSubstr("no sign of it for more than 30 s"));
      EXPECT_THAT(found.reason, HasSubstr(status.writer.host));
      EXPECT_NEAR(found.silent_seconds, 31, 2);
    }
  }
  put_events({{.kind = "message"}});  // a sign too
  EXPECT_EQ(state(), RunState::running);
  for (const auto& entry : std::filesystem::directory_iterator(run_))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
}

TEST_F(StateTest, InAContainerOnlyAgeTells) {
  // In a process of its own: a fork beside its thread could find a lock taken.
  std::unique_ptr<StatusWriter> writer;
  const test::WaitingProcess process([&] { writer = std::make_unique<StatusWriter>(run_, Status{}); });
  const auto seen_inside = [&] {
    return test::in_child([&] {
      if (!test::enter_namespaces(CLONE_NEWPID)) return test::kNotPermitted;
      return test::in_child([&] { return static_cast<int>(state()); });
    });
  };
  const int fresh = seen_inside();
  if (fresh == test::kNotPermitted) GTEST_SKIP() << "this user may not make a namespace of processes";
  EXPECT_EQ(fresh, static_cast<int>(RunState::running));
  set_age("status.json", 31);
  EXPECT_EQ(seen_inside(), static_cast<int>(RunState::lost));
  EXPECT_EQ(state(), RunState::running);
}

// Its /proc shows the processes outside, one of which has the writer's number for ever.
TEST_F(StateTest, AWriterInANamespaceWithAnothersProcIsJudgedByAge) {
  const int code = test::in_child([&] {
    if (!test::enter_namespaces(CLONE_NEWPID)) return test::kNotPermitted;
    return test::in_child([&] {
      if (test::in_child([&] {
            new StatusWriter(run_, {});  // NOLINT: killed with the process
            return 0;
          }) != 0)
        return 1;
      if (state() != RunState::running) return 2;
      set_age("status.json", 31);
      return state() == RunState::lost ? 0 : 3;
    });
  });
  if (code == test::kNotPermitted) GTEST_SKIP() << "this user may not make a namespace of processes";
  EXPECT_EQ(code, 0);
}

TEST_F(StateTest, AReaderWhoMayNotWriteThere) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  std::filesystem::permissions(run_, std::filesystem::perms(0755));
  write_status(run_, elsewhere());
  const auto seen = [&] {
    return test::in_child([&] { return ::setuid(test::kNobody) == 0 ? static_cast<int>(state()) : 99; });
  };
  EXPECT_EQ(seen(), static_cast<int>(RunState::running));
  set_age("status.json", 31);
  EXPECT_EQ(seen(), static_cast<int>(RunState::lost));
  // The process of another user.
  std::filesystem::remove(run_ / "status.json");
  std::unique_ptr<StatusWriter> writer;
  const test::WaitingProcess process([&] { writer = std::make_unique<StatusWriter>(run_, Status{}); });
  set_age("status.json", kDay);
  EXPECT_EQ(seen(), static_cast<int>(RunState::running));
}

TEST_F(StateTest, AFolderThatMayNotBeReadIsNotCalledNoRun) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  write_status(run_, Status{});
  std::filesystem::permissions(run_, std::filesystem::perms::none);
  const int code = test::in_child([&] {
    if (::setuid(test::kNobody) != 0) return 99;
    try {
      state_of(run_);
    } catch (const Error& error) {
      return error.message().ends_with(": Permission denied") ? 0 : 1;
    }
    return 2;
  });
  EXPECT_EQ(code, 0);
}

Event end_with(const std::string& reason) {
  return {.epoch = 1, .step = 3, .kind = "end", .values = {{"reason", reason}}};
}

TEST_F(StateTest, OtherProgramsNeedNotRepeatTheAttempt) {
  const auto log = [&](int attempt, const std::string& lines) {
    const std::filesystem::path file =
        run_ / "events" / ("rank-0-attempt-" + std::to_string(attempt) + ".jsonl");
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << lines;
  };
  log(0,
      "{\"kind\":\"step\",\"step\":100}\n{\"kind\":\"end\",\"step\":100,\"values\":{\"reason\":\"stopped\"}}"
      "\n");
  EXPECT_EQ(state(), RunState::stopped);
  log(1, "{\"kind\":\"step\",\"step\":5}\n");
  EXPECT_EQ(state(), RunState::running);
  EXPECT_EQ(state_of(run_).attempt, 1);
}

TEST_F(StateTest, OldRunsSayTheirEndInEvents) {
  put_events({{.kind = "plan", .values = {{"total_steps", 8}}},
              {.epoch = 1, .step = 3, .kind = "step"},
              end_with("stopped")});
  const StateOfRun stopped = state_of(run_);
  EXPECT_EQ(stopped.state, RunState::stopped);
  EXPECT_EQ(stopped.step, 3);
  EXPECT_EQ(stopped.total_steps, 8);
  put_events({{.kind = "step"}}, 1);  // goes on
  EXPECT_EQ(state(), RunState::running);
  EXPECT_EQ(state_of(run_).attempt, 1);
  put_events({{.kind = "failed", .values = {{"error", "no space"}, {"hint", "free some"}}}}, 2);
  EXPECT_EQ(state(), RunState::failed);
  EXPECT_EQ(state_of(run_).reason, "no space");
  EXPECT_EQ(state_of(run_).hint, "free some");
  put_events({end_with("patience")}, 3);
  EXPECT_EQ(state(), RunState::ended);
  EXPECT_EQ(state_of(run_).reason, "patience");
  std::ofstream(run_ / "events" / "rank-0-attempt-3.jsonl", std::ios::app) << "damaged\n[]\n{\"kind\":";
  EXPECT_EQ(state(), RunState::ended);
}

TEST_F(StateTest, OldRunsThatSayNoEnd) {
  put_events({{.step = 3, .kind = "step"}});
  const std::string log = "events/rank-0-attempt-0.jsonl";
  EXPECT_EQ(state(), RunState::running);
  set_age(log, 31);
  EXPECT_EQ(state(), RunState::lost);  // no lock, as of a program that only writes events

  put_lock(::getpid());
  EXPECT_EQ(state(), RunState::running);  // which logs rarely
  set_age("lock", kDay);
  EXPECT_EQ(state(), RunState::lost);  // the process is younger than the lock

  pid_t gone = 0;
  {
    const test::WaitingProcess process([] {});
    gone = process.id();
  }
  put_lock(gone);
  set_age(log, 0);
  const StateOfRun lost = state_of(run_);
  EXPECT_EQ(lost.state, RunState::lost);
  EXPECT_EQ(lost.reason, "the process is gone");
  EXPECT_EQ(lost.host, host_name());

  put_lock(gone, "node7");
  EXPECT_EQ(state(), RunState::running);
  set_age(log, 31);
  EXPECT_THAT(state_of(run_).reason, AllOf(HasSubstr("no sign"), HasSubstr("node7")));
}

TEST_F(StateTest, ARunThatIsBeginningHasOnlyALock) {
  put_lock(::getpid());
  EXPECT_EQ(state(), RunState::running);
  EXPECT_EQ(state_of(run_).attempt, -1);
}

TEST_F(StateTest, NothingInAFolderIsWaitedFor) {
  ASSERT_EQ(::mkfifo((run_ / "pipe").c_str(), 0600), 0);
  for (const char* name : {"status.json", "lock"}) std::filesystem::create_symlink("pipe", run_ / name);
  state_of(run_);
  std::filesystem::remove(run_ / "status.json");
  Status status;
  status.writer = this_process();
  ++status.writer.process_start;
  for (const std::string& file :
       {(run_ / "pipe").string(), std::string("/sys/fs/cgroup/../../../dev/zero")}) {
    status.memory_kills_file = file;
    write_status(run_, status);
    EXPECT_EQ(state_of(run_).reason, "the process is gone");
  }
  for (const int64_t process : {int64_t{-1}, int64_t{1} << 32 | 1, int64_t{1} << 62}) {
    status.writer.process = process;
    write_status(run_, status);
    set_age("status.json", 31);
    EXPECT_EQ(state(), RunState::lost) << process;
  }
}

TEST_F(StateTest, TheKernelsCountTellsThatMemoryRanOut) {
  const auto kills = memory_kills();
  if (!kills) return;  // the machine's root group has no count
  Status status;
  status.writer = this_process();
  ++status.writer.process_start;
  status.memory_kills_file = kills->file;
  status.memory_kills = kills->count;
  write_status(run_, status);
  EXPECT_EQ(state_of(run_).reason, "the process is gone");
  --status.memory_kills;
  write_status(run_, status);
  EXPECT_THAT(state_of(run_).reason, HasSubstr("because memory ran out"));
}

}  // namespace
}  // namespace lockstep::record
