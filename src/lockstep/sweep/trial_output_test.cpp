#include "lockstep/sweep/internal/trial_output.h"

#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>

#include <gmock/gmock.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/sweep/engine.h"
#include "lockstep/sweep/internal/trial_result.h"

namespace lockstep::sweep {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr size_t kMebibyte = size_t{1} << 20;

std::optional<double> value_in(const std::string& lines, const std::string& name = "result") {
  PrintedResult result;
  result.take(lines, name);
  return result.value;
}

TEST(PrintedResult, IsTheLastLineWithANumber) {
  EXPECT_EQ(value_in("result 3, after 2 steps\nresult 1,5\nresult 1,500\n"), 3);
  EXPECT_EQ(value_in("step 1\rresult 0.5\r\nresult 0.125\rresult 0.250,1\n"), 0.25);
  EXPECT_EQ(value_in("loss=0.5\nlosses: 2\nloss saved\n", "loss"), 0.5);
}

TEST(PrintedResult, TakesWhatIsANumber) {
  EXPECT_EQ(value_in("result +5"), 5);
  EXPECT_EQ(value_in("result +.5e1;"), 5);
  EXPECT_EQ(value_in("result 1e-400"), 0);
  EXPECT_EQ(value_in("result -1e-400"), 0);
  EXPECT_EQ(value_in("result 1e400"), HUGE_VAL);
  for (const char* text : {"50%", "+-5", "++5", "+", "1e", "0x10", "five", "+1,5"})
    EXPECT_EQ(value_in(std::string("result ") + text), std::nullopt) << text;
}

class TrialOutputs : public testing::Test {
 protected:
  TrialOutputs() { make_folders(paths_.trial(0).parent_path()); }

  // In the file as it is, of which `reader` has read something.
  std::optional<double> value(const ResultReader& reader = {}) const {
    return reader.result_of(paths_.output(0), "result").value;
  }
  std::string bytes(size_t at, size_t size) const {
    std::string text(size, '?');
    text.resize(OpenFile(paths_.output(0), O_RDONLY).read_at(static_cast<int64_t>(at), text));
    return text;
  }
  size_t size() const { return fs::file_size(paths_.output(0)); }
  size_t on_disk() const {
    struct stat status {};
    ::stat(paths_.output(0).c_str(), &status);
    return static_cast<size_t>(status.st_blocks) * 512;  // stat(2): the unit, whatever the file system
  }
  // Of the temporary folder's file system.
  bool can_release() const {
    const OpenFile file(paths_.folder / "probe", O_WRONLY | O_CREAT);
    return ::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20) == 0;
  }
  // With lines until the file has this size.
  void fill(std::ofstream& file, size_t size) const {
    const std::string line = "no result of it\n";
    std::string text;
    for (size_t left = size - static_cast<size_t>(file.tellp()); left > text.size();)
      text += left - text.size() < line.size() ? "\n" : line;
    file << text;
  }
  static SweepSpec one_trial(const std::string& script) {
    SweepSpec spec{.command = {"sh", "-c", script, "name", "{x}"}};
    spec.space.add("x", "4");
    spec.options.count = 1;
    return spec;
  }

  test::TemporaryFolder folder_;
  SweepPaths paths_{folder_.path()};
};

TEST_F(TrialOutputs, AResultThatIsNoNumberIsNamed) {
  std::ofstream(paths_.output(0)) << "result 50%\n";
  const TrialResult result = result_of(paths_, {.command = {"./simulate"}}, {.end = {0}});
  ASSERT_TRUE(result.outcome);
  EXPECT_EQ(result.outcome->state, TrialState::failed);
  EXPECT_THAT(result.outcome->error, HasSubstr("gives a value of \"result\": \"50%\" is no number"));
}

TEST_F(TrialOutputs, ShortOnesAreKept) {
  std::ofstream file(paths_.output(0));
  file << "result 3\n";
  fill(file, 3 * kMebibyte - 1);
  file.close();
  EXPECT_EQ(value(TrialOutput(paths_.output(0), "result").finish()), 3);
  EXPECT_EQ(read_file(paths_.output(0)).find('\0'), std::string::npos);
}

TEST_F(TrialOutputs, TheMiddleOfLongOnesIsLeftOutButNotItsResult) {
  std::ofstream file(paths_.output(0));
  file << "begin\nresult 1\n";
  fill(file, 40 * kMebibyte);
  file << "result 2\n";
  fill(file, 65 * kMebibyte - 10);
  file << "result 314159\n";  // its line ends after the first part
  fill(file, 70 * kMebibyte);
  file << "result 50%\nend\n";
  file.close();
  const size_t all = size();
  const auto now = std::chrono::steady_clock::now();
  TrialOutput output(paths_.output(0), "result");
  EXPECT_EQ(output.look(now), can_release());
  EXPECT_FALSE(output.look(now)) << "less than a part is left";
  EXPECT_EQ(bytes(65 * kMebibyte, 16), "159\nno result of");
  EXPECT_EQ(value(output.finish()), 314159);
  EXPECT_EQ(size(), all);
  EXPECT_THAT(bytes(0, 20), StartsWith("begin\nresult 1\nno r"));
  EXPECT_EQ(bytes(kMebibyte - 10, 10).find('\0'), std::string::npos);
  EXPECT_EQ(bytes(69 * kMebibyte, 10).find('\0'), std::string::npos);
  EXPECT_THAT(bytes(all - 50, 50), EndsWith("\nresult 50%\nend\n"));
  if (!can_release()) return;
  EXPECT_LT(on_disk(), 4 * kMebibyte);
  EXPECT_EQ(bytes(kMebibyte, 16), std::string(16, '\0'));
  EXPECT_EQ(bytes(69 * kMebibyte - 1, 1), std::string(1, '\0'));
  EXPECT_EQ(value(), 1) << "for others the line that is left out is gone";
}

TEST_F(TrialOutputs, WhereNoResultIsLookedForNothingIsRead) {
  for (const char* name : {"", "result"}) {
    std::ofstream file(paths_.output(0));
    fill(file, 2 * kMebibyte);
    file << "result 9\n";
    fill(file, 5 * kMebibyte);
    file.close();
    TrialOutput output(paths_.output(0), name);
    output.release();
    EXPECT_EQ(output.finish().at(), 0);
    if (can_release()) {
      EXPECT_LT(on_disk(), 4 * kMebibyte);
    }
  }
}

TEST_F(TrialOutputs, OfALostAttemptAreShortenedButNotItsResult) {
  std::ofstream file(paths_.output(0));
  file << "result 1\n";
  fill(file, 2 * kMebibyte);
  file << "result 9\n";
  fill(file, 70 * kMebibyte);
  file.close();
  const SweepSpec spec{.command = {"./simulate"}};
  TrialOutput output(paths_.output(0), "result");
  EXPECT_EQ(output.look(std::chrono::steady_clock::now()), can_release());
  const TrialResult lost = result_of(paths_, spec, {.end = {SIGKILL}, .output = output});
  EXPECT_FALSE(lost.outcome);
  EXPECT_EQ(lost.printed, 9);
  EXPECT_EQ(line_of_loss(paths_, {.trial = 0}, lost).value, 9);
  if (can_release()) {
    EXPECT_LT(on_disk(), 4 * kMebibyte);
  }
  const auto stopped = end_between_attempts(paths_, spec, {.trial = 0}, lost.printed);
  ASSERT_TRUE(stopped && stopped->outcome);
  EXPECT_EQ(stopped->outcome->state, TrialState::stopped);
  EXPECT_EQ(stopped->outcome->value, 9);
}

TEST_F(TrialOutputs, OfAnAttemptThatEndedWithItsSweepAreReadAndShortened) {
  std::ofstream file(paths_.output(0));
  fill(file, 2 * kMebibyte);
  file << "result 9\n";
  fill(file, 5 * kMebibyte);
  file.close();
  const auto stopped = end_between_attempts(paths_, {.command = {"./simulate"}}, {.trial = 0}, std::nullopt);
  ASSERT_TRUE(stopped && stopped->outcome);
  EXPECT_EQ(stopped->outcome->state, TrialState::stopped);
  EXPECT_EQ(stopped->outcome->value, 9);
  if (can_release()) {
    EXPECT_LT(on_disk(), 4 * kMebibyte);
  }
}

TEST_F(TrialOutputs, OfATrialThatIsLostEachTimeAreShort) {
  SweepSpec spec = one_trial("echo result 1e400; yes abcdefg | head -c 8000000; kill -9 $$");
  spec.options.retries = 1;
  EXPECT_TRUE(run_sweep(paths_, spec, {}).is_complete);
  EXPECT_EQ(read_table(paths_).rows.at(0).state, TrialState::failed);
  if (can_release()) {
    EXPECT_LT(on_disk(), 4 * kMebibyte);
  }
}

// As `echo result 5 > /dev/stderr` does it.
TEST_F(TrialOutputs, AProgramThatEmptiesItsOutputBeginsAnew) {
  for (const size_t mebibytes : {5, 70}) {
    std::ofstream(paths_.output(0)) << "result 7\n";
    fs::resize_file(paths_.output(0), mebibytes * kMebibyte);
    TrialOutput output(paths_.output(0), "result");
    output.look(std::chrono::steady_clock::now());
    const ResultReader before = output.finish();
    EXPECT_EQ(value(before), 7);
    std::ofstream file(paths_.output(0));
    file << "result 5\n" << std::flush;
    EXPECT_EQ(value(before), 5);
    EXPECT_EQ(value(output.finish()), 5);
    fill(file, 4 * kMebibyte);
    file << "result 6\n";
    fill(file, 4 * kMebibyte + 100);
    file.close();
    EXPECT_EQ(value(output.finish()), 6);
    std::ofstream{paths_.output(0)};
    EXPECT_EQ(value(output.finish()), std::nullopt);
  }
}

// Here since the program may open no file for a while.
TEST_F(TrialOutputs, AFailedReleaseIsTriedAgain) {
  std::ofstream file(paths_.output(0));
  file << "result 3\n";
  fill(file, 4 * kMebibyte);
  file.close();
  TrialOutput output(paths_.output(0), "result");
  const bool releases = can_release();
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = files.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  output.finish();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_EQ(bytes(kMebibyte, 10).find('\0'), std::string::npos);
  EXPECT_EQ(value(output.finish()), 3);
  if (releases) {
    EXPECT_EQ(bytes(kMebibyte, 10), std::string(10, '\0'));
  }
}

TEST_F(TrialOutputs, AHoleCostsNothing) {
  if (!can_release())
    GTEST_SKIP()
        << "the file system of the temporary folder cannot release parts of a file; hint: set TMPDIR";
  std::ofstream(paths_.output(0)) << "result 7\nresult ";
  fs::resize_file(paths_.output(0), size_t{1} << 40);
  EXPECT_EQ(value(), 7);
  std::ofstream(paths_.output(0), std::ios::app) << "9\nresult 8\nend";
  EXPECT_EQ(value(), 8);
}

TEST_F(TrialOutputs, ALineWithoutAnEndIsRead) {
  std::ofstream file(paths_.output(0));
  file << "result 7\n";
  const std::string piece(kMebibyte, 'a');
  for (int i = 0; i < 5; ++i) file << piece;
  file << "result 9";
  file.close();
  EXPECT_EQ(value(TrialOutput(paths_.output(0), "result").finish()), 7);
}

TEST_F(TrialOutputs, ProgramsPrintMuchWhileOthersLook) {
  SweepSpec spec = one_trial("echo result $1; yes abcdefg | head -c 70254592; echo end >&2");
  spec.options.count = spec.options.trials = 2;
  EXPECT_TRUE(run_sweep(paths_, spec, {}).is_complete);
  for (const Row& row : read_table(paths_).rows) EXPECT_EQ(row.value, 4) << row.trial;
  EXPECT_EQ(size(), 67 * kMebibyte + 13);
  EXPECT_EQ(bytes(0, 12), "result 4\nabc");
  EXPECT_EQ(bytes(67 * kMebibyte, 20), "\nabcdefg\nend\n");
  if (can_release()) {
    EXPECT_LT(on_disk(), 4 * kMebibyte);
  }
}

TEST_F(TrialOutputs, AProgramMayEmptyItsOutput) {
  const SweepSpec spec =
      one_trial("echo result 1; yes abcdefg | head -c 4000000; echo result $1 > /dev/stderr");
  EXPECT_TRUE(run_sweep(paths_, spec, {}).is_complete);
  EXPECT_EQ(read_table(paths_).rows.at(0).value, 4);
  EXPECT_EQ(size(), 9u);
}

TEST_F(TrialOutputs, TheErrorIsThatAtTheEnd) {
  const SweepSpec spec = one_trial("yes abcdefg | head -c 8000000; echo lockstep: the disk is gone; exit 1");
  EXPECT_TRUE(run_sweep(paths_, spec, {}).is_complete);
  EXPECT_EQ(read_table(paths_).rows.at(0).error, "it ended with status 1: the disk is gone");
  if (can_release()) {
    EXPECT_LT(on_disk(), 4 * kMebibyte);
  }
}

// A server, say, that later trials use.
TEST_F(TrialOutputs, AProgramThatOutlivesItsTrialPrintsOn) {
  const fs::path begun = folder_.path() / "begun", go = folder_.path() / "go",
                 lived = folder_.path() / "lived";
  const SweepSpec spec = one_trial(
      "setsid sh -c 'touch " + begun.string() + "; while ! test -e " + go.string() + "; do test -e " +
      begun.string() + " || exit; echo more; sleep 0.01; done; yes abcdefg | head -c 1000000; touch " +
      lived.string() + "' & while ! test -e " + begun.string() + "; do sleep 0.01; done; echo result $1");
  EXPECT_TRUE(run_sweep(paths_, spec, {}).is_complete);
  EXPECT_EQ(read_table(paths_).rows.at(0).value, 4);
  std::ofstream{go};
  for (int i = 0; i < 6000 && !fs::exists(lived); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(fs::exists(lived));
  EXPECT_GT(size(), 1'000'000u);
}

}  // namespace
}  // namespace lockstep::sweep
