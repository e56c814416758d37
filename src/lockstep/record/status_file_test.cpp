#include "lockstep/base/test_folder.h"
#include "lockstep/record/status_file.h"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <random>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/record/test_process.h"

namespace lockstep::record {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

class StatusFileTest : public testing::Test {
 protected:
  std::optional<Status> read_of(const std::string& bytes) {
    std::ofstream(file_, std::ios::binary) << bytes;
    return read_status(run_);
  }

  const lockstep::test::TemporaryFolder temporary_{};
  const std::filesystem::path& run_ = temporary_.path();
  const std::filesystem::path file_ = run_ / "status.json";
};

TEST_F(StatusFileTest, ReadsBackWhatWasWritten) {
  StatusWriter writer(run_, {.attempt = 2, .step = 5, .total_steps = 100});
  const auto first = read_status(run_);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->state, RunState::running);
  EXPECT_EQ(first->attempt, 2);
  EXPECT_EQ(first->step, 5);
  EXPECT_EQ(first->total_steps, 100);
  EXPECT_EQ(first->writer.process, ::getpid());
  EXPECT_EQ(is_there(first->writer), true);
  EXPECT_GT(first->started, 1.7e9);
  writer.set_step(7, 3);
  writer.set_state(RunState::stopping, "a request of ann@host");
  writer.set_state(RunState::failed, "out of memory", "use fewer workers");
  writer.set_state(RunState::ended, "is not written after a final state");
  const auto last = read_status(run_);
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->state, RunState::failed);
  EXPECT_EQ(last->reason, "out of memory");
  EXPECT_EQ(last->hint, "use fewer workers");
  EXPECT_EQ(last->step, 7);
  EXPECT_EQ(last->epoch, 3);
}

TEST_F(StatusFileTest, IsWrittenEveryThreeSeconds) {
  StatusWriter writer(run_, {});
  writer.set_step(9, 1);
  EXPECT_EQ(read_status(run_)->step, 0);
  const auto start = std::chrono::steady_clock::now();
  while (read_status(run_)->step != 9 && std::chrono::steady_clock::now() - start < std::chrono::seconds(20))
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(read_status(run_)->step, 9);
}

TEST_F(StatusFileTest, AWriterThatGoesWithoutALastWordHasFailed) {
  { const StatusWriter writer(run_, {}); }
  EXPECT_EQ(read_status(run_)->state, RunState::failed);
  EXPECT_THAT(read_status(run_)->reason, HasSubstr("without saying how it ended"));
}

TEST_F(StatusFileTest, AStepThatIsSaidLateDoesNotTakeTheRunBack) {
  StatusWriter writer(run_, {.step = 30});
  writer.set_step(33, 4);
  writer.set_step(31, 3);  // of a checkpoint that was being written
  writer.set_state(RunState::stopping, "");
  EXPECT_EQ(read_status(run_)->step, 33);
  EXPECT_EQ(read_status(run_)->epoch, 4);
}

TEST_F(StatusFileTest, AnAttemptThatChangedNothingLeavesNoWordWhereThereWasNone) {
  {
    StatusWriter writer(run_, {.attempt = 1});
    EXPECT_TRUE(read_status(run_).has_value());
    writer.restore(std::nullopt);
  }
  EXPECT_FALSE(std::filesystem::exists(run_ / "status.json"));
}

TEST_F(StatusFileTest, AnAttemptThatChangedNothingLeavesTheEarlierWord) {
  { StatusWriter(run_, {.step = 9}).set_state(RunState::stopped, "Ctrl-C"); }
  const auto earlier = read_status(run_);
  {
    StatusWriter writer(run_, {.attempt = 1, .step = 8});
    EXPECT_EQ(read_status(run_)->state, RunState::running);
    writer.restore(*earlier);
    writer.set_state(RunState::failed, "is not written after that");
  }
  EXPECT_EQ(read_status(run_)->state, RunState::stopped);
  EXPECT_EQ(read_status(run_)->reason, "Ctrl-C");
  EXPECT_EQ(read_status(run_)->step, 9);
}

TEST_F(StatusFileTest, HasTheBestValidationAndIsReadWithoutIt) {
  StatusWriter writer(run_, {});
  EXPECT_FALSE(read_status(run_)->best_accuracy.has_value());
  writer.set_best(0.75, 40);
  writer.set_state(RunState::stopping, "");
  EXPECT_EQ(read_status(run_)->best_accuracy, 0.75);
  EXPECT_EQ(read_status(run_)->best_step, 40);
  writer.set_step(41, 2);
  writer.begin_again();
  writer.set_step(1, 1);
  writer.set_state(RunState::stopped, "");
  EXPECT_FALSE(read_status(run_)->best_step.has_value());
  EXPECT_EQ(read_status(run_)->step, 1);
  EXPECT_EQ(read_of("{\"state\": \"ended\", \"step\": 7}\n")->step, 7) << "of an earlier version";
}

TEST_F(StatusFileTest, AStatusOfNoProcessIsReadToo) {
  write_status(run_, {.state = RunState::queued, .reason = "waits for 2 runs"});
  EXPECT_EQ(read_status(run_)->state, RunState::queued);
  EXPECT_EQ(read_status(run_)->reason, "waits for 2 runs");
}

TEST_F(StatusFileTest, TheFileHasOneSizeWhateverTheTextsAre) {
  StatusWriter writer(run_, {});
  for (const std::string& text :
       {std::string(600, '\x01'), std::string(600, '\xff'), std::string(100'000, '"')}) {
    writer.set_state(RunState::stopping, text, text);
    EXPECT_THAT(read_file(file_), SizeIs(4096));
    ASSERT_TRUE(read_status(run_).has_value());
    EXPECT_FALSE(read_status(run_)->reason.empty());
  }
}

TEST_F(StatusFileTest, TheLastWordIsSaidOnAFullDisk) {
  const int code = test::in_child([&] {
    if (!test::enter_namespaces(CLONE_NEWNS)) return test::kNotPermitted;
    ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    if (::mount("none", run_.c_str(), "tmpfs", 0, "size=64k") != 0) return test::kNotPermitted;
    StatusWriter writer(run_, {});
    const int filler = ::open((run_ / "filler").c_str(), O_WRONLY | O_CREAT, 0600);
    while (::write(filler, "x", 1) == 1) continue;
    if (errno != ENOSPC) return 1;
    try {
      write_status(run_, {});
      return 2;
    } catch (const Error&) {  // there is indeed no space
    }
    writer.set_state(RunState::failed, "no space left on device", std::string(3000, 'x'));
    const auto status = read_status(run_);
    return status && status->state == RunState::failed && status->reason == "no space left on device" ? 0 : 3;
  });
  if (code == test::kNotPermitted) GTEST_SKIP() << "this user may not mount a small file system";
  EXPECT_EQ(code, 0);
}

TEST_F(StatusFileTest, AReaderNeverSeesAWritingInProgress) {
  constexpr int kWritings = 10'000;
  const auto text_of = [](int64_t step) {
    return std::string(step % 590, static_cast<char>('a' + step % 26));
  };
  write_status(run_, {});
  const pid_t writing = ::fork();
  if (writing == 0) {
    {
      StatusWriter writer(run_, {});
      for (int64_t step = 1; step <= kWritings; ++step) {
        writer.set_step(step, 1);
        writer.set_state(RunState::stopping, text_of(step), text_of(step + 1));
      }
    }
    ::_exit(0);
  }
  int64_t last = 0;
  while (::waitpid(writing, nullptr, WNOHANG) == 0) {
    const auto status = read_status(run_);
    ASSERT_TRUE(status.has_value());
    if (status->state != RunState::stopping) continue;
    ASSERT_EQ(status->reason, text_of(status->step));
    ASSERT_EQ(status->hint, text_of(status->step + 1));
    ASSERT_GE(status->step, last);
    last = status->step;
  }
  EXPECT_EQ(read_status(run_)->step, kWritings);
}

TEST_F(StatusFileTest, OtherProgramsMayWriteItSimply) {
  EXPECT_EQ(read_of("{\"state\":\"running\"}")->state, RunState::running);
  EXPECT_EQ(read_of("{\"state\":\"ended\",\"step\":3}\n" + std::string(4000, ' '))->step, 3);
  EXPECT_EQ(read_of("{\n  \"state\": \"ended\",\r\n  \"step\": 3\r\n}\n" + std::string(4000, '\0'))->step, 3);
  EXPECT_EQ(read_of(R"({"state":"failed","new":[1],"writer":{"host":"a","gpu":7}})")->writer.host, "a");
  const std::string json = R"({"state":"running","step":4})";
  EXPECT_EQ(read_of(json + "\n" + as_hex(hash_of(json)) + "\n   ")->step, 4);
  EXPECT_FALSE(read_of(json + "\n0123456789abcdef\n").has_value());
}

TEST_F(StatusFileTest, DamagedContentIsNoStatus) {
  for (const char* bytes :
       {"", "\n", "{", "{}", "[]", "5", "null", "{\"state\":5}", "{\"state\":\"flying\"}",
        "{\"state\":\"running\",\"step\":\"many\"}", "{\"state\":\"running\",\"step\":1e300}",
        "{\"state\":\"running\",\"step\":99999999999999999999}"}) {
    EXPECT_FALSE(read_of(bytes).has_value()) << bytes;
  }
  std::minstd_rand random(26);
  std::string block;
  { const StatusWriter writer(run_, {}); }
  const std::string whole = read_file(file_);
  for (int i = 0; i < 200; ++i) {
    block.resize(random() % 9000);
    for (char& c : block) c = static_cast<char>(random());
    EXPECT_FALSE(read_of(block).has_value());
  }
  for (int i = 0; i < 20; ++i) {
    block = whole;
    block[random() % whole.find('\n')] ^= 1;
    EXPECT_FALSE(read_of(block).has_value());
    block = whole.substr(0, random() % whole.find('\n'));
    EXPECT_FALSE(read_of(block).has_value());
  }
}

TEST_F(StatusFileTest, WhatIsNoFileIsNoStatusAndNotWaitedFor) {
  EXPECT_FALSE(read_status(run_).has_value());
  EXPECT_FALSE(read_status(run_ / "nothing").has_value());
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_FALSE(read_status(run_).has_value());
  std::filesystem::remove(file_);
  for (const std::filesystem::path target : {"status.json", "nothing", "/dev/zero", "."}) {
    std::filesystem::create_symlink(target, file_);
    EXPECT_FALSE(read_status(run_).has_value()) << target;
    std::filesystem::remove(file_);
  }
  std::ofstream(file_).close();
  std::filesystem::resize_file(file_, uintmax_t{1} << 30);
  EXPECT_FALSE(read_status(run_).has_value());
}

TEST_F(StatusFileTest, AWriterPutsAFileInPlaceOfAPipeOrLink) {
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  { const StatusWriter writer(run_, {}); }
  EXPECT_TRUE(std::filesystem::is_regular_file(file_));
  std::filesystem::remove(file_);
  std::ofstream(run_ / "thesis.tex") << "text";
  std::filesystem::create_symlink("thesis.tex", file_);
  { const StatusWriter writer(run_, {}); }
  EXPECT_EQ(read_file(run_ / "thesis.tex"), "text");
  EXPECT_TRUE(read_status(run_).has_value());
}

}  // namespace
}  // namespace lockstep::record
