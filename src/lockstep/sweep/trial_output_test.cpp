#include "lockstep/sweep/internal/trial_output.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/sweep/internal/printed_result.h"
#include "lockstep/sweep/internal/trial_process.h"
#include "lockstep/sweep/internal/trial_result.h"

namespace lockstep::sweep {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
namespace fs = std::filesystem;

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

  std::string text() const { return read_file(paths_.output(0)); }
  std::optional<double> value() const { return printed_result(paths_.output(0), "result").value; }
  TrialResult result_of_program(const std::string& error = {}) const {
    return result_of(paths_, {.command = {"./simulate"}}, {.end = {0}, .output_error = error});
  }

  test::TemporaryFolder folder_;
  SweepPaths paths_{folder_.path()};
};

TEST_F(TrialOutputs, AResultThatIsNoNumberIsNamed) {
  std::ofstream(paths_.output(0)) << "result 50%\n";
  const TrialResult result = result_of_program();
  ASSERT_TRUE(result.outcome);
  EXPECT_EQ(result.outcome->state, TrialState::failed);
  EXPECT_THAT(result.outcome->error, HasSubstr("gives a value of \"result\": \"50%\" is no number"));
}

TEST_F(TrialOutputs, ATrialWhoseOutputCouldNotBeWrittenIsLost) {
  std::ofstream(paths_.output(0)) << "result 5\n";
  EXPECT_EQ(result_of_program("the disk is full").lost, "the disk is full");
  EXPECT_EQ(result_of_program().outcome->value, 5);
}

TEST_F(TrialOutputs, ShortOnesAreKeptAsTheyAre) {
  const std::string all = "one\n" + std::string(2 * kMebibyte, 'a') + "\nresult 3\n";
  BoundedOutput output(paths_.output(0), "result");
  output.take(all.substr(0, 100));
  output.take(all.substr(100));
  EXPECT_EQ(text(), all);
}

// The beginning, the end, how much is missing, and the last result among that.
TEST_F(TrialOutputs, LongOnesHaveABeginningAndAnEnd) {
  BoundedOutput output(paths_.output(0), "result");
  size_t printed = 0;
  const auto print = [&](const std::string& line) {
    output.take(line);
    printed += line.size();
  };
  print("begin\nresult 1\n");
  for (int i = 0; i < 100'000; ++i) print("a line that is not a result, number " + std::to_string(i) + "\n");
  print("result 2\n");
  for (int i = 0; i < 200'000; ++i) print("a line that is not a result, number " + std::to_string(i) + "\n");
  const std::string kept = text();
  EXPECT_LE(kept.size(), 3 * kMebibyte + 100);
  EXPECT_THAT(kept.substr(0, 20), StartsWith("begin\nresult 1\na li"));
  EXPECT_THAT(kept.substr(kept.size() - 50), EndsWith(", number 199999\n"));
  EXPECT_EQ(value(), 2);
  const size_t note = kept.find("\n[lockstep left out ") + 1;
  ASSERT_NE(note, 0u);
  const std::string after = kept.substr(note, 100);
  const std::string count = after.substr(19, after.find(" bytes here]\nresult 2\na line") - 19);
  // The note and the result line stand for what they replace.
  const size_t added = std::string("[lockstep left out  bytes here]\nresult 2\n").size() + count.size();
  const auto missing = static_cast<int64_t>(printed + added - kept.size());
  EXPECT_NEAR(static_cast<double>(std::stoll(count)), static_cast<double>(missing), 500);
  EXPECT_EQ(kept.find("[lockstep left out", note + 1), std::string::npos);

  // An attempt that goes on with the file.
  BoundedOutput again(paths_.output(0), "result");
  for (int i = 0; i < 100'000; ++i)
    again.take("a line of another attempt, number " + std::to_string(i) + "\n");
  EXPECT_EQ(value(), 2);
  EXPECT_LE(text().size(), 3 * kMebibyte + 100);
  EXPECT_EQ(text().find("[lockstep left out"), note);
}

TEST_F(TrialOutputs, ALineWithoutAnEndIsCut) {
  BoundedOutput output(paths_.output(0), "result");
  output.take("result 7\n");
  const std::string piece(100'000, 'a');
  for (int i = 0; i < 100; ++i) output.take(piece);
  EXPECT_LE(text().size(), 3 * kMebibyte + piece.size());
  EXPECT_EQ(value(), 7);
  EXPECT_THAT(text(), HasSubstr(" bytes here]\n...aaa"));
}

TEST_F(TrialOutputs, AProcessPrintsIntoItsFile) {
  SweepSpec spec{.command = {"sh", "-c", "echo result 4; yes abcdefg | head -c 9000000; echo end >&2"}};
  const StartedTrial started = start_trial(paths_, spec, {});
  EXPECT_EQ(launch::wait_for_end(started.process).status, 0);
  EXPECT_EQ(started.output->finish(), "");
  EXPECT_LE(text().size(), 3 * kMebibyte + (size_t{1} << 16));
  EXPECT_THAT(text().substr(text().size() - 20), EndsWith("end\n"));
  EXPECT_EQ(value(), 4);
}

}  // namespace
}  // namespace lockstep::sweep
