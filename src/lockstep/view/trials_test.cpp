#include "lockstep/view/trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "lockstep/view/internal/synthetic_run.h"
#include "lockstep/view/internal/test_terminal.h"

namespace lockstep::view {
namespace {

using test::Environment;
using test::widths;
using test::without_escapes;
using testing::Each;
using testing::HasSubstr;
using testing::Le;
using testing::Not;

class TrialsView : public testing::Test {
  Environment term_{"TERM", "xterm-256color"};
  Environment no_color_{"NO_COLOR", nullptr};
  Environment columns_{"COLUMNS", nullptr};
  Environment lines_{"LINES", nullptr};
};

// Side by side, an event of each in turn.
void play(Trials& trials, const std::vector<std::string>& names, const SyntheticRun& run = {}) {
  for (const record::Event& event : synthetic_events(run)) {
    for (const std::string& name : names) trials.show(name, event);
  }
}

TEST_F(TrialsView, WithoutATerminalEachValidationAndEachEndIsALine) {
  const std::string text = test::in_file([](std::FILE* out) {
    Trials trials(out);
    play(trials, {"rate 0.01", "rate 0.1"}, {.epochs = 2});
  });
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("rate 0.01  epoch 1/2  loss "));
  EXPECT_THAT(text, HasSubstr("rate 0.1   epoch 2/2  loss "));
  EXPECT_THAT(text, HasSubstr("  held-out accuracy 0."));
  EXPECT_THAT(text, HasSubstr("rate 0.01  finished, held-out accuracy 0.9860 after 2 epochs in "));
}

TEST_F(TrialsView, ATerminalHasALineAndACurveOfEachTrial) {
  const std::string text = test::on_terminal({100, 40}, [](std::FILE* out) {
    Trials trials(out);
    play(trials, {"rate 0.01", "rate 0.1"}, {.end = false});
  });
  EXPECT_THAT(widths(text), Each(Le(99)));
  const auto rows = split(without_escapes(text), '\n');
  const std::string last = rows[rows.size() - 3] + "\n" +
                           rows[rows.size() - 2];  // the block that stays, and an empty line behind it
  EXPECT_THAT(last, HasSubstr("rate 0.01  "));
  EXPECT_THAT(last, HasSubstr("rate 0.1   "));
  EXPECT_THAT(last, HasSubstr("▇"));
  EXPECT_THAT(last, HasSubstr("8/8"));
}

TEST_F(TrialsView, ATrialThatEndsLeavesItsLineAbove) {
  const std::string text = test::on_terminal({100, 40}, [](std::FILE* out) {
    Trials trials(out);
    play(trials, {"first"});
    play(trials, {"second"}, {.end = false});
  });
  const std::string plain = without_escapes(text);
  EXPECT_THAT(plain, HasSubstr("finished, held-out accuracy 0.9860 after 8 epochs"));
  EXPECT_LT(plain.find("first"), plain.rfind("second"));
  EXPECT_EQ(plain.find("first", plain.find("finished")), std::string::npos) << "it is not drawn again";
}

// The others go on.
TEST_F(TrialsView, ATrialThatFailsLeavesItsErrorAbove) {
  const auto show = [](std::FILE* out) {
    Trials trials(out);
    play(trials, {"first", "second"}, {.epochs = 2, .end = false});
    trials.show("first", {.kind = "failed", .values = {{"error", "the loss is not a number\nmore"}}});
  };
  const std::string plain = without_escapes(test::on_terminal({100, 40}, show));
  const size_t failed = plain.find("failed: the loss is not a number");
  ASSERT_NE(failed, std::string::npos);
  EXPECT_EQ(plain.find("first", failed), std::string::npos) << "it is not drawn again";
  EXPECT_NE(plain.find("second", failed), std::string::npos);
  EXPECT_THAT(test::in_file(show), HasSubstr("first   failed: the loss is not a number\n"));
}

TEST_F(TrialsView, MoreTrialsThanRowsAreCounted) {
  const std::string text = test::on_terminal({60, 8}, [](std::FILE* out) {
    Trials trials(out);
    std::vector<std::string> names;
    for (int i = 0; i < 12; ++i)
      names.push_back("a trial with a very long name, number " + std::to_string(i));
    names[3] = "a\x1b[31mb";
    play(trials, names, {.epochs = 1, .end = false});
  });
  EXPECT_THAT(widths(text), Each(Le(59)));
  EXPECT_THAT(text, HasSubstr("and 7 more"));
  EXPECT_THAT(text, Not(HasSubstr("a\x1b[31mb")));
}

}  // namespace
}  // namespace lockstep::view
