#include "lockstep/base/test_folder.h"
#include "lockstep/base/test_limit.h"
#include "lockstep/record/follower.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <numeric>
#include <poll.h>
#include <random>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/log_name.h"

namespace lockstep::record {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string line_of(int64_t step) { return to_line({.step = step, .kind = "step"}) + "\n"; }

class FollowerTest : public testing::Test {
 protected:
  void append(const std::string& bytes, const std::string& name = "rank-0-attempt-0.jsonl") {
    std::filesystem::create_directories(run_ / "events");
    std::ofstream(file(name), std::ios::app | std::ios::binary) << bytes;
  }
  void replace(const std::string& bytes, const std::string& name = "rank-0-attempt-0.jsonl") {
    std::filesystem::remove(file(name));
    append(bytes, name);
  }
  std::filesystem::path file(const std::string& name = "rank-0-attempt-0.jsonl") const {
    return run_ / "events" / name;
  }
  std::vector<int64_t> polled(Follower& follower) {
    std::vector<int64_t> steps;
    const int64_t count = follower.poll([&](const Event& event) { steps.push_back(event.step); });
    EXPECT_EQ(count, static_cast<int64_t>(steps.size()));
    return steps;
  }
  std::string refusal(Follower& follower) {
    try {
      polled(follower);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
      return error.what();
    }
    return "no error";
  }

  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path run_ = temporary_.path() / "run";
};

TEST_F(FollowerTest, GivesWhatWasAddedSinceTheLastPoll) {
  Follower follower(run_);
  EXPECT_THAT(polled(follower), IsEmpty());  // no folder yet
  append(line_of(1) + line_of(2));
  EXPECT_THAT(polled(follower), ElementsAre(1, 2));
  EXPECT_THAT(polled(follower), IsEmpty());
  append("\n" + line_of(3));
  EXPECT_THAT(polled(follower), ElementsAre(3));
  append(line_of(4), "rank-0-attempt-1.jsonl");
  append(line_of(5), "rank-0-attempt-0.jsonl");
  EXPECT_THAT(polled(follower), ElementsAre(5, 4));  // attempt by attempt
  EXPECT_EQ(follower.restarts(), 0);
}

TEST_F(FollowerTest, ALineIsGivenWhenItsEndIsThere) {
  const std::string lines =
      line_of(1) + to_line({.step = 2, .kind = "message", .values = {{"text", "ä"}}}) + "\n";
  for (size_t cut = 0; cut <= lines.size(); ++cut) {
    replace(lines.substr(0, cut));
    Follower follower(run_);
    std::vector<int64_t> steps = polled(follower);
    append(lines.substr(cut) + line_of(3));
    for (const int64_t step : polled(follower)) steps.push_back(step);
    EXPECT_THAT(steps, ElementsAre(1, 2, 3)) << cut;
    EXPECT_EQ(follower.restarts(), 0) << cut;
  }
}

TEST_F(FollowerTest, TheLastLineOfACompleteLogNeedsNoEnd) {
  append(line_of(1) + line_of(2).substr(0, line_of(2).size() - 1));
  Follower follower(run_);
  std::vector<int64_t> steps;
  const auto take = [&](const Event& event) { steps.push_back(event.step); };
  EXPECT_EQ(follower.read_all(take), 2);
  append("\n" + line_of(3) + "{\"kind\":");
  EXPECT_EQ(follower.read_all(take), 1);
  EXPECT_THAT(steps, ElementsAre(1, 2, 3));
}

TEST_F(FollowerTest, SeveralWritersEachInOrder) {
  append(line_of(1) + line_of(2), "rank-0-attempt-0.jsonl");
  append(line_of(1) + line_of(2), "rank-1-attempt-0.jsonl");
  append(line_of(0), "client-attempt-0.jsonl");
  append("no log", "client-attempt-x.jsonl");
  append("no log", "rank-0-attempt-0.jsonl.part");
  Follower follower(run_);
  std::map<std::string, std::vector<int64_t>> steps;
  follower.poll([&](const Event& event) { steps[event.writer].push_back(event.step); });
  EXPECT_EQ(steps.size(), 3U);
  EXPECT_THAT(steps["rank-0"], ElementsAre(1, 2));
  EXPECT_THAT(steps["rank-1"], ElementsAre(1, 2));
  EXPECT_THAT(steps["client"], ElementsAre(0));
}

TEST_F(FollowerTest, TheAttemptIsThatOfTheFilesName) {
  append(R"({"kind":"step","step":1})"
         "\n",
         "rank-0-attempt-7.jsonl");
  Follower follower(run_);
  follower.poll([&](const Event& event) { EXPECT_EQ(event.attempt, 7); });
}

TEST_F(FollowerTest, AfterAReplacedLogAllFollowFromTheBeginning) {
  append(line_of(1) + line_of(2));
  append(line_of(3), "rank-1-attempt-0.jsonl");
  Follower follower(run_);
  EXPECT_THAT(polled(follower), ElementsAre(1, 2, 3));
  replace(line_of(4));  // shorter
  EXPECT_THAT(polled(follower), ElementsAre(4, 3));
  EXPECT_EQ(follower.restarts(), 1);
  // Longer than the former one, and in the same file of the disk.
  std::ofstream(file()) << line_of(5) << line_of(6) << line_of(7);
  EXPECT_THAT(polled(follower), ElementsAre(5, 6, 7, 3));
  EXPECT_EQ(follower.restarts(), 2);
  std::filesystem::remove_all(run_);
  EXPECT_THAT(polled(follower), IsEmpty());
  append(line_of(8) + line_of(9));
  EXPECT_THAT(polled(follower), ElementsAre(8, 9));
  EXPECT_EQ(follower.restarts(), 3);
}

// As rsync does it.
TEST_F(FollowerTest, ALongerCopyThatIsRenamedOverTheLogGoesOnWithIt) {
  append(line_of(1) + line_of(2));
  Follower follower(run_);
  EXPECT_THAT(polled(follower), ElementsAre(1, 2));
  append(line_of(1) + line_of(2) + line_of(3), ".rank-0-attempt-0.jsonl.Ab3");
  std::filesystem::rename(file(".rank-0-attempt-0.jsonl.Ab3"), file());
  EXPECT_THAT(polled(follower), ElementsAre(3));
  EXPECT_EQ(follower.restarts(), 0);
}

TEST_F(FollowerTest, ZerosAreWaitedForAtEveryPlace) {
  const std::string lines = line_of(1) + line_of(2) + line_of(3);
  for (size_t begin = 0; begin < lines.size(); begin += 5) {
    for (const size_t size : {size_t{1}, size_t{90}, lines.size()}) {
      std::string holed = lines;
      std::fill(holed.begin() + static_cast<std::ptrdiff_t>(begin),
                holed.begin() + static_cast<std::ptrdiff_t>(std::min(begin + size, holed.size())), '\0');
      replace(holed);
      Follower follower(run_);
      std::vector<int64_t> steps = polled(follower);
      EXPECT_THAT(polled(follower), IsEmpty());
      std::fstream(file(), std::ios::in | std::ios::out | std::ios::binary) << lines;
      for (const int64_t step : polled(follower)) steps.push_back(step);
      EXPECT_THAT(steps, ElementsAre(1, 2, 3)) << begin << ' ' << size;
    }
  }
}

TEST_F(FollowerTest, WhatAPowerCutTookIsLeftOutOfACompleteLog) {
  append(line_of(1) + std::string(100'000, '\0') + "\"values\":{}}\n" + line_of(2) + '\0');
  std::filesystem::resize_file(file(), uintmax_t{4} << 40);  // a hole that nobody could read through
  append("\n" + line_of(3) + std::string(5000, '\0'));
  Follower follower(run_);
  EXPECT_THAT(polled(follower), ElementsAre(1));
  std::vector<int64_t> steps;
  follower.read_all([&](const Event& event) { steps.push_back(event.step); });
  EXPECT_THAT(steps, ElementsAre(2, 3));
}

TEST_F(FollowerTest, ALogThatItsWriterCutGoesOn) {
  append(line_of(1) + line_of(2).substr(0, 20));
  Follower follower(run_);
  EXPECT_THAT(polled(follower), ElementsAre(1));
  std::filesystem::resize_file(file(), line_of(1).size());
  EXPECT_THAT(polled(follower), IsEmpty());
  append(line_of(3));
  EXPECT_THAT(polled(follower), ElementsAre(3));
  EXPECT_EQ(follower.restarts(), 0);
}

TEST_F(FollowerTest, ADamagedLineIsReportedOnceAndTheRestFollows) {
  append(line_of(1) + "{\"kind\":\"st\n" + line_of(2) + "[]\n" + line_of(3));
  Follower follower(run_);
  const std::string first = refusal(follower);
  EXPECT_THAT(first, HasSubstr("line 2 of"));
  EXPECT_THAT(first, HasSubstr("rank-0-attempt-0.jsonl"));
  EXPECT_THAT(refusal(follower), HasSubstr("line 4 of"));
  EXPECT_THAT(polled(follower), ElementsAre(3));
  EXPECT_THAT(polled(follower), IsEmpty());
}

TEST_F(FollowerTest, ALineThatIsTooLongIsReportedOnceAndTheRestFollows) {
  append(line_of(1) + std::string((size_t{1} << 25) + 5, 'x'));
  Follower follower(run_);
  EXPECT_THAT(refusal(follower), HasSubstr("line 2 of"));
  EXPECT_THAT(polled(follower), IsEmpty());
  append("x\n" + line_of(2) + "y\n");
  EXPECT_THAT(refusal(follower), HasSubstr("line 4 of"));
}

TEST_F(FollowerTest, AnEventThatWasRefusedByItsTakerIsNotGivenAgain) {
  append(line_of(1) + line_of(2) + line_of(3));
  Follower follower(run_);
  EXPECT_THROW(follower.poll([](const Event& event) {
    if (event.step == 2) throw std::runtime_error("no");
  }),
               std::runtime_error);
  EXPECT_THAT(polled(follower), ElementsAre(3));
}

TEST_F(FollowerTest, WhatIsNoFileIsAnErrorAndNotWaitedFor) {
  std::filesystem::create_directories(run_ / "events");
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  Follower follower(run_);
  EXPECT_THROW(polled(follower), Error);
  std::filesystem::remove(file());
  std::filesystem::create_directory(file());
  EXPECT_THROW(polled(follower), Error);
}

// What a follower in a process of its own tells at its end.
struct Followed {
  int64_t events = 0;
  int64_t faults = 0;
  int64_t attempts = 0;
  int64_t memory_kib = 0;
};

/// Follows a run in a process of its own, until it is told that nothing comes any more.
class FollowingProcess {
 public:
  explicit FollowingProcess(const std::filesystem::path& run) {
    if (::pipe2(told_.data(), O_CLOEXEC) != 0 || ::pipe2(answer_.data(), O_CLOEXEC) != 0) std::abort();
    process_ = ::fork();
    if (process_ != 0) return;
    ::close(told_[1]);
    const Followed followed = follow(run);
    const bool written = ::write(answer_[1], &followed, sizeof followed) == sizeof followed;
    ::_exit(written ? 0 : 1);
  }
  Followed end() {
    ::close(told_[1]);
    Followed followed;
    EXPECT_EQ(::read(answer_[0], &followed, sizeof followed), static_cast<ssize_t>(sizeof followed));
    int status = 0;
    ::waitpid(process_, &status, 0);
    EXPECT_EQ(status, 0);
    for (const int descriptor : {told_[0], answer_[0], answer_[1]}) ::close(descriptor);
    return followed;
  }

 private:
  Followed follow(const std::filesystem::path& run) const {
    Followed found;
    std::map<std::string, std::pair<int64_t, int64_t>> expected;  // of each writer: attempt, sequence
    const auto take = [&](const Event& event) {
      auto& [attempt, sequence] = expected[event.writer];
      if (event.attempt > attempt) {  // perhaps one was killed before its first event
        attempt = event.attempt;
        sequence = 0;
      }
      found.faults += event.attempt == attempt && event.sequence == sequence ? 0 : 1;
      sequence = event.sequence + 1;
      found.attempts = std::max(found.attempts, event.attempt + 1);
      ++found.events;
    };
    Follower follower(run);
    bool is_over = false;
    while (!is_over) {
      pollfd told{told_[0], POLLIN, 0};
      is_over = ::poll(&told, 1, 1) == 1;  // and once more, for what came since the last look
      try {
        follower.poll(take);
      } catch (const Error& error) {
        std::cerr << error.what() << '\n';
        ++found.faults;
      }
    }
    found.faults += follower.restarts();
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    found.memory_kib = usage.ru_maxrss;
    return found;
  }

  std::array<int, 2> told_{}, answer_{};
  pid_t process_ = 0;
};

int64_t lines_in(const std::filesystem::path& run) {
  int64_t count = 0;
  std::vector<char> chunk(1 << 20);
  for (const LogFile& log : log_files(run)) {
    std::ifstream file(log.path, std::ios::binary);
    while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), file.gcount() > 0)
      count += std::count(chunk.begin(), chunk.begin() + file.gcount(), '\n');
  }
  return count;
}

uintmax_t bytes_in(const std::filesystem::path& run) {
  uintmax_t bytes = 0;
  for (const LogFile& log : log_files(run)) bytes += std::filesystem::file_size(log.path);
  return bytes;
}

pid_t start_writer(const std::filesystem::path& run, int64_t rank, int64_t attempt) {
  const pid_t writer = ::fork();
  if (writer != 0) return writer;
  EventLog log(run, rank, attempt);
  for (int64_t step = 1;; ++step) {
    Event event =
        event_of(Step{.loss = 1.0 / static_cast<double>(step), .shard_workers = {0, 1, 2, 3}}, step, 1);
    log.write(event);
  }
}

/// Writers of two ranks that are killed so many times, at a random moment after so many bytes.
Followed follow_killed_writers(const std::filesystem::path& run, int kills, uintmax_t bytes) {
  std::filesystem::create_directories(run / "events");
  FollowingProcess following(run);
  std::minstd_rand random(26);
  for (int attempt = 0; attempt < kills; ++attempt) {
    const uintmax_t enough = bytes * static_cast<uintmax_t>(attempt + 1) / static_cast<uintmax_t>(kills);
    const std::array writers{start_writer(run, 0, attempt), start_writer(run, 1, attempt)};
    do {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
    } while (bytes_in(run) < enough || log_files(run).size() < 2 * static_cast<size_t>(attempt + 1));
    for (const pid_t writer : writers) ::kill(writer, SIGKILL);
    for (const pid_t writer : writers) ::waitpid(writer, nullptr, 0);
  }
  return following.end();
}

// With scripts/test --long 100 kills while a gigabyte is written.
TEST_F(FollowerTest, KillsOfTheWritersLoseNothing) {
  const bool is_long = std::getenv("LOCKSTEP_LONG") != nullptr;
  const int kills = is_long ? 100 : 20;
  const auto start = std::chrono::steady_clock::now();
  const Followed followed = follow_killed_writers(run_, kills, uintmax_t{is_long ? 1024U : 4U} << 20);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::cout << followed.events << " events, " << (bytes_in(run_) >> 20) << " MB, " << seconds.count()
            << " s, peak memory of the follower " << (followed.memory_kib >> 10) << " MB\n";
  EXPECT_GE(followed.attempts, kills - 5);  // some may be killed before their first event
  EXPECT_EQ(followed.faults, 0);
  EXPECT_EQ(followed.events, lines_in(run_));
  if (!lockstep::test::kSanitized) {
    EXPECT_LT(followed.memory_kib, 50 << 10);
  }
}

TEST_F(FollowerTest, ALargeLogNeedsLittleMemory) {
  append("");
  FollowingProcess following(run_);
  std::string lines;
  int64_t sequence = 0;
  while (lines.size() < (size_t{64} << 20)) {
    lines += to_line({.sequence = sequence,
                      .step = sequence,
                      .kind = "message",
                      .values = {{"text", std::string(2000, 'x')}}}) +
             "\n";
    ++sequence;
  }
  append(lines);
  const Followed followed = following.end();
  EXPECT_EQ(followed.events, sequence);
  EXPECT_EQ(followed.faults, 0);
  if (!lockstep::test::kSanitized) {
    EXPECT_LT(followed.memory_kib, 20 << 10);
  }
}

}  // namespace
}  // namespace lockstep::record
