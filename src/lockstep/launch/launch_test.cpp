#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/process.h"

namespace lockstep::launch {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr std::chrono::seconds kPatience{20};

Start shell(const std::string& script) { return {.program = "sh", .words = {"sh", "-c", script}}; }

struct Ended {
  std::string said;
  int status = 0;
};

// Runs it to its end, with a pipe for its standard output and standard error.
Ended run(Start start) {
  Pipe pipe = make_pipe();
  start.output = start.errors = pipe.writing.get();
  const pid_t process = start_process(start);
  pipe.writing = {};
  Ended ended;
  while (read_available(pipe.reading.get(), [&](std::string_view text) { ended.said += text; }))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const End end = wait_for_end(process);
  EXPECT_TRUE(end.status);
  ended.status = end.status.value_or(-1);
  return ended;
}

bool becomes_true(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

TEST(StartProcess, HasItsWordsAndVariables) {
  ::setenv("LAUNCH_TEST_KEPT", "kept", 1);
  ::setenv("LAUNCH_TEST_REPLACED", "old", 1);
  Start start = shell("echo \"$0 $1\"; env | grep LAUNCH_TEST | sort");
  start.words.insert(start.words.end(), {"zero", "one"});
  start.environment = {"LAUNCH_TEST_REPLACED=new"};
  const Ended ended = run(start);
  EXPECT_EQ(ended.said, "zero one\nLAUNCH_TEST_KEPT=kept\nLAUNCH_TEST_REPLACED=new\n");
  EXPECT_EQ(ended.status, 0);
}

TEST(StartProcess, StatusesHaveWords) {
  EXPECT_EQ(text_of_status(run(shell("exit 3")).status), "ended with status 3");
  EXPECT_EQ(text_of_status(run(shell("kill -9 $$")).status), "was killed by signal 9 (Killed)");
}

// The kernel keeps no status of the ends that a program ignores.
TEST(StartProcess, GetsTheStatusesOfItsOwnChildren) {
  std::signal(SIGCHLD, SIG_IGN);
  Pipe pipe = make_pipe();
  Start start{.program = "grep", .words = {"grep", "SigIgn", "/proc/self/status"}};
  start.output = pipe.writing.get();
  const pid_t process = start_process(start);
  pipe.writing = {};
  std::string said;
  while (read_available(pipe.reading.get(), [&](std::string_view text) { said += text; }))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  wait_for_end(process);
  std::signal(SIGCHLD, SIG_DFL);
  const std::string mask = said.substr(said.find_last_of(" \t") + 1);
  EXPECT_EQ(std::stoull(mask, nullptr, 16) >> (SIGCHLD - 1) & 1, 0U) << said;
}

TEST(StartProcess, AnEndThatOthersHaveWaitedForHasNoStatus) {
  const pid_t process = start_process(shell("exit 3"));
  EXPECT_EQ(wait_for_end(process).status.value(), 3 << 8);
  EXPECT_FALSE(try_wait_for_end(process).value().status);
  EXPECT_FALSE(wait_for_end(process).status);
}

TEST(StartProcess, AWaitWithALimitLeavesTheProcess) {
  const pid_t process = start_process(shell("exec sleep 600"));
  EXPECT_FALSE(wait_for_end(process, {}, std::chrono::steady_clock::now() + std::chrono::milliseconds(30)));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(wait_for_end(process, stop.get_token()));
  EXPECT_TRUE(signal_group(process, SIGKILL));
  EXPECT_EQ(wait_for_end(process, {}).value().status.value(), SIGKILL);
}

TEST(StartProcess, SaysWhyAProgramCannotStart) {
  const Ended ended = run({.program = "no-such-program", .words = {"no-such-program"}});
  EXPECT_EQ(ended.said, "cannot start \"no-such-program\": No such file or directory\n");
  EXPECT_EQ(WEXITSTATUS(ended.status), 127);
}

TEST(StartProcess, LeadsAGroupAndBlocksNoSignal) {
  sigset_t signals, before;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &signals, &before);
  const pid_t process = start_process(shell("exec sleep 100"));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(::getpgid(process), process);
  ::kill(-process, SIGTERM);
  const int status = wait_for_end(process).status.value();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

TEST(StartProcess, PassesADescriptor) {
  Pipe pipe = make_pipe();
  Start start = shell("echo passed >&3");
  start.passed = pipe.writing.get();
  EXPECT_EQ(run(start).status, 0);
  std::string got;
  read_available(pipe.reading.get(), [&](std::string_view text) { got += text; });
  EXPECT_EQ(got, "passed\n");
}

TEST(StartProcess, EndsWithTheThreadThatStartedIt) {
  pid_t process = 0;
  std::thread([&] {
    process = start_process(shell("exec sleep 100"));
    // Before it runs the program it may not have asked for its end with this thread yet.
    becomes_true([&] {
      return first_line_of("/proc/" + std::to_string(process) + "/cmdline").find("sleep") !=
             std::string::npos;
    });
  }).join();
  std::optional<End> end;
  ASSERT_TRUE(becomes_true([&] { return (end = try_wait_for_end(process)).has_value(); }));
  const int status = end->status.value();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(StartProcess, WaitsAtAGate) {
  const test::TemporaryFolder folder;
  const Gate gate;
  std::vector<pid_t> processes;
  for (const char* name : {"first", "second"}) {
    Start start = shell("touch " + (folder.path() / name).string());
    start.gate = gate.descriptor();
    processes.push_back(start_process(start));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  gate.open(2);
  for (const pid_t process : processes) EXPECT_EQ(wait_for_end(process).status, 0);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "first"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "second"));
}

// Leaves nothing of a starter that ends while its process waits at a gate.
void check_end_at_a_gate(Lifetime lifetime) {
  const test::TemporaryFolder folder;
  const auto pid_file = folder.path() / "pid";
  const pid_t starter = ::fork();
  if (starter == 0) {
    const Gate gate;
    Start start = shell("touch " + (folder.path() / "ran").string());
    start.gate = gate.descriptor();
    start.lifetime = lifetime;
    write_file_atomic(pid_file, std::to_string(start_process(start)));
    ::_exit(0);
  }
  ::waitpid(starter, nullptr, 0);
  const std::filesystem::path stat = "/proc/" + first_line_of(pid_file) + "/stat";
  EXPECT_TRUE(becomes_true([&] {
    const std::string text = first_line_of(stat);
    // Whoever adopts it may leave it a zombie.
    return text.empty() || text.find(") Z ") != std::string::npos;
  }));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "ran"));
}

TEST(StartProcess, EndsAtAGateWithItsStarter) { check_end_at_a_gate(Lifetime::starter); }

TEST(StartDetached, EndsAtAGateWithItsStarter) { check_end_at_a_gate(Lifetime::detached); }

TEST(StartDetached, OutlivesItsStarterBehindAGate) {
  const test::TemporaryFolder folder;
  const pid_t starter = ::fork();
  if (starter == 0) {
    const Gate gate;
    Start start = shell("touch " + (folder.path() / "began").string() + "; sleep 0.2; touch " +
                        (folder.path() / "ran").string());
    start.gate = gate.descriptor();
    start.lifetime = Lifetime::detached;
    start_process(start);
    gate.open(1);
    becomes_true([&] { return std::filesystem::exists(folder.path() / "began"); });
    ::_exit(0);
  }
  ::waitpid(starter, nullptr, 0);
  EXPECT_TRUE(becomes_true([&] { return std::filesystem::exists(folder.path() / "ran"); }));
}

TEST(StartDetached, OutlivesItsStarterInASessionOfItsOwn) {
  const test::TemporaryFolder folder;
  const auto output = folder.path() / "output";
  const int held = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GE(held, 0);
  const pid_t starter = ::fork();
  if (starter == 0) {
    // It prints its process id and session, its input and its descriptors, and a last line after the
    // starter's end.
    start_detached(
        shell("cut -d' ' -f1,6 /proc/$$/stat; echo $$; read word || echo no input; ls /proc/$$/fd; "
              "while kill -0 " +
              std::to_string(::getpid()) + " 2>/dev/null; do sleep 0.01; done; echo >&2 end"),
        output);
    ::_exit(0);
  }
  ::close(held);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::waitpid(starter, nullptr, 0);
  std::string said;
  ASSERT_TRUE(becomes_true([&] {
    said = std::filesystem::exists(output) ? read_file(output) : "";
    return said.ends_with("end\n");
  })) << said;
  const std::vector<std::string> lines = split(said, '\n');
  EXPECT_EQ(lines[0], lines[1] + " " + lines[1]);
  EXPECT_EQ(lines[2], "no input");
  EXPECT_THAT(lines, Contains("2"));
  EXPECT_THAT(lines, Not(Contains(std::to_string(held))));
}

// At once, when it may not have made its group yet.
TEST(StartDetached, IsKilledByKillGroup) {
  for (int i = 0; i < 100; ++i) {
    Start start = shell("sleep 600");
    start.lifetime = Lifetime::detached;
    kill_group(start_process(start));
  }
}

TEST(StartDetached, AppendsToItsFile) {
  const test::TemporaryFolder folder;
  const auto output = folder.write("output", "before\n");
  const pid_t process = start_detached(shell("echo out; echo errors >&2"), output);
  wait_for_end(process);
  EXPECT_EQ(read_file(output), "before\nout\nerrors\n");
  EXPECT_THROW(start_detached(shell("true"), folder.path() / "no" / "folder"), Error);
}

}  // namespace
}  // namespace lockstep::launch
