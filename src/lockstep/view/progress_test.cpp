#include <algorithm>
#include <functional>
#include <sys/ioctl.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "lockstep/view/internal/history.h"
#include "lockstep/view/internal/line.h"
#include "lockstep/view/internal/status_line.h"
#include "lockstep/view/internal/synthetic_run.h"
#include "lockstep/view/internal/test_terminal.h"
#include "lockstep/view/views.h"

namespace lockstep::view {
namespace {

using test::Environment;
using test::widths;
using test::without_escapes;
using testing::Each;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Le;
using testing::Not;
using testing::StartsWith;

record::Event& plan_of(std::vector<record::Event>& events) {
  return *std::ranges::find(events, "plan", &record::Event::kind);
}

using Script = std::function<void(View&, int terminal)>;

std::string on_terminal(int columns, ProgressOptions options, const Script& script) {
  return test::on_terminal({columns, 40}, [&](std::FILE* out) {
    const auto view = progress(out, options);
    script(*view, ::fileno(out));
    view->finish();
  });
}

std::string on_pipe(ProgressOptions options, const Script& script) {
  return test::in_file([&](std::FILE* out) {
    const auto view = progress(out, options);
    script(*view, -1);
    view->finish();
  });
}

Script replay(const std::vector<record::Event>& events) {
  return [&](View& view, int) {
    for (const record::Event& event : events) view.show(event);
  };
}

bool has_colour(const std::string& text) {
  for (size_t at = text.find("\x1b["); at != std::string::npos; at = text.find("\x1b[", at + 1)) {
    const size_t letter = text.find_first_not_of("0123456789;", at + 2);
    if (letter != std::string::npos && text[letter] == 'm') return true;
  }
  return false;
}

int64_t count_of(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The environment of a terminal, whatever the tests are started from.
class Progress : public testing::Test {
  Environment term_{"TERM", "xterm-256color"};
  Environment no_color_{"NO_COLOR", nullptr};
  Environment columns_{"COLUMNS", nullptr};
};

TEST_F(Progress, PlainOutputIsLines) {
  const std::string text = on_pipe({}, replay(synthetic_events()));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_THAT(text, StartsWith("digits_cnn, 9,000 images of 28x28, 2 workers; lockstep plan says why\n"));
  EXPECT_THAT(text, HasSubstr("first step after 0.41 s\n"));
  EXPECT_THAT(text, HasSubstr("epoch 3/8  step 213  train loss "));
  EXPECT_THAT(text, HasSubstr("warning: skipped 1 of 10,000 samples"));
  EXPECT_THAT(text, HasSubstr("●"));
  EXPECT_THAT(text, HasSubstr("model saved in runs/digits-001/model.safetensors\n"));
  EXPECT_THAT(text, EndsWith("held-out accuracy 0.9860 after 8 epochs in 21.3 s, 3,402 images/s\n"));
  // All steps came within two seconds: one line of them.
  EXPECT_EQ(count_of(text, "/568 "), 1);
}

TEST_F(Progress, SequencesAreNotCalledImages) {
  auto events = synthetic_events();
  plan_of(events).values["time_steps"] = 26;
  for (const std::string& text :
       {on_pipe({.verbose = true}, replay(events)), on_terminal(100, {}, replay(events))}) {
    EXPECT_THAT(text, Not(HasSubstr("images")));
    EXPECT_THAT(text, HasSubstr("3,402 sequences/s"));
  }
  plan_of(events).values["tbptt_length"] = 5;
  EXPECT_THAT(on_pipe({}, replay(events)), EndsWith("3,402 pieces/s\n"));
}

// With epochs of one step, a checkpoint is often written when the next epoch has begun.
TEST_F(Progress, WhatIsSaidLateDoesNotChangeTheStepOfAnEpoch) {
  const std::string text = on_pipe({}, [](View& view, int) {
    const auto step = [](int64_t number) {
      return record::Event{.epoch = number, .step = number, .kind = "step", .values = {{"loss", 1.0}}};
    };
    view.show(step(1));
    view.show(step(2));
    view.show({.epoch = 1, .step = 1, .kind = "checkpoint", .values = {{"path", "step-1"}}});
    view.show(step(3));
    view.show({.kind = "message", .values = {{"text", "one more"}}});
    view.show(step(4));
  });
  EXPECT_THAT(text, HasSubstr("epoch 2  step 2  "));
  EXPECT_THAT(text, HasSubstr("epoch 3  step 3  "));
}

TEST_F(Progress, VerboseHasALineForEveryStep) {
  const std::string text = on_pipe({.verbose = true}, replay(synthetic_events()));
  EXPECT_EQ(count_of(text, "/568 "), 568);
}

TEST_F(Progress, TimingPrintsTheBreakdown) {
  const std::string text = on_pipe({.timing = true}, replay(synthetic_events()));
  EXPECT_THAT(text, testing::ContainsRegex("forward +12.10 ms +33.0 %"));
  EXPECT_THAT(text, testing::ContainsRegex("exchange +2.10 ms +5.7 %"));
  EXPECT_THAT(text, HasSubstr("exchange 2.80 ms, 25 % hidden behind backward"));
  EXPECT_THAT(text, testing::ContainsRegex("page faults +0 a step"));
  EXPECT_THAT(on_pipe({}, replay(synthetic_events())), Not(HasSubstr("backward")));
}

TEST_F(Progress, ATerminalOfAnyWidthIsNotOverrun) {
  // Rows that stay and are as long as what they say may fold: messages, paths, the last line.
  for (const int columns : {24, 40, 60, 80, 100, 160, 300}) {
    std::vector<record::Event> events = synthetic_events({.end = false});
    std::erase_if(events, [](const record::Event& event) { return event.kind == "message"; });
    EXPECT_THAT(widths(on_terminal(columns, {.plot = true}, replay(events))), Each(Le(columns))) << columns;
  }
}

TEST_F(Progress, TheBarIsRedrawnAtMostTenTimesASecond) {
  const std::string text = on_terminal(
      100, {},
      replay(synthetic_events({.epochs = 1, .steps_per_epoch = 5000, .validate = false, .end = false})));
  EXPECT_LT(text.size(), 3000U);
  EXPECT_THAT(text, HasSubstr("\r"));
  EXPECT_THAT(without_escapes(text), HasSubstr("epoch 1/1"));
}

TEST_F(Progress, FollowsAWindowThatIsResized) {
  const std::vector<record::Event> events = synthetic_events({.validate = false, .end = false});
  const std::string text = on_terminal(160, {}, [&](View& view, int terminal) {
    for (int i = 0; i < 3; ++i) view.show(events[static_cast<size_t>(i)]);
    winsize size{};
    size.ws_col = 50;
    size.ws_row = 20;
    ASSERT_EQ(::ioctl(terminal, TIOCSWINSZ, &size), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(120));
    view.show(events[3]);
  });
  EXPECT_LE(widths(text).back() == 0 ? widths(text).end()[-2] : widths(text).back(), 50);
  EXPECT_THAT(text, HasSubstr("A\r\x1b[J"));  // the folded rows are taken away
}

TEST_F(Progress, ColoursOnlyOnATerminalAndNotWithNoColor) {
  EXPECT_TRUE(has_colour(on_terminal(80, {}, replay(synthetic_events()))));
  EXPECT_FALSE(has_colour(on_pipe({}, replay(synthetic_events()))));
  const Environment set("NO_COLOR", "1");
  EXPECT_FALSE(has_colour(on_terminal(80, {}, replay(synthetic_events()))));
}

TEST_F(Progress, ColumnsStandsInForAWidthThatIsNotKnown) {
  const Environment columns("COLUMNS", "120");
  const std::string text = on_terminal(0, {}, replay(synthetic_events()));
  const std::vector<int> rows = widths(text);
  EXPECT_GT(*std::max_element(rows.begin(), rows.end()), 100);
}

TEST_F(Progress, ATerminalOfNoSizeGetsLines) {
  EXPECT_EQ(on_terminal(0, {}, replay(synthetic_events({.epochs = 1, .validate = false}))).find("\x1b"),
            std::string::npos);
}

TEST_F(Progress, ADumbTerminalGetsLines) {
  const Environment term("TERM", "dumb");
  EXPECT_THAT(on_terminal(80, {}, replay(synthetic_events())), Not(HasSubstr("\x1b")));
  std::vector<record::Event> events = synthetic_events({.end = false});
  std::erase_if(events, [](const record::Event& event) { return event.kind == "message"; });
  for (const int columns : {24, 60, 80, 100}) {
    for (const bool verbose : {false, true})
      EXPECT_THAT(widths(on_terminal(columns, {.verbose = verbose}, replay(events))), Each(Le(columns)));
  }
}

// Elsewhere standard error has it.
TEST_F(Progress, AStopIsSaidOnATerminalAboveWhatIsDrawn) {
  std::vector<record::Event> events = synthetic_events({.epochs = 1, .end = false});
  events.push_back({.kind = "stopping", .values = {{"text", "stopping: saving"}}});
  const std::string drawn = on_terminal(100, {.plot = true}, replay(events));
  const size_t said = drawn.rfind(
      "\x1b[J"
      "stopping: saving");
  ASSERT_NE(said, std::string::npos);
  EXPECT_THAT(without_escapes(drawn.substr(said)), HasSubstr("epoch 1/1"));
  EXPECT_THAT(on_terminal(0, {}, replay(events)), HasSubstr("stopping: saving"));
  EXPECT_THAT(on_pipe({}, replay(events)), Not(HasSubstr("stopping")));
}

TEST_F(Progress, TextFromFilesCannotSteerTheTerminal) {
  const record::Event event{.kind = "message", .values = {{"text", "bad name \x1b[2J\r.png"}}};
  EXPECT_THAT(on_pipe({}, replay({event})), HasSubstr("bad name ?[2J?.png"));
}

TEST_F(Progress, AnEpochThatWasNotFinishedIsNotCounted) {
  std::vector<record::Event> events = synthetic_events({.epochs = 2});
  record::Event end = events.back();
  std::erase_if(events, [](const record::Event& event) { return event.step > 100; });
  end.step = 100;
  end.epoch = 2;
  end.values["reason"] = "stopped";
  events.push_back(end);
  const std::string text = on_pipe({}, replay(events));
  EXPECT_THAT(text, HasSubstr(" after 100 steps in 21.3 s"));
  EXPECT_THAT(text, HasSubstr("stopped early, with a checkpoint\n"));
}

TEST_F(Progress, FrozenLayersSayHowFarTheyAre) {
  const std::vector<record::Event> events{
      {.kind = "features", .values = {{"done", 512}, {"all", 1607}, {"seconds_left", 12.0}}},
      {.kind = "message", .values = {{"text", "computed once"}}}};
  for (const std::string& text :
       {on_pipe({}, replay(events)), without_escapes(on_terminal(80, {}, replay(events)))}) {
    EXPECT_THAT(text, HasSubstr("frozen layers computed for 512 of 1,607 images, 12 s left"));
    EXPECT_THAT(text, HasSubstr("computed once"));
  }
}

struct StepFigures {
  double loss = 1;
  int64_t samples = 10;
  double speed = 10;
};

record::Event logged_step(int64_t number, const StepFigures& figures) {
  return {.epoch = 1,
          .step = number,
          .kind = "step",
          .values = {{"loss", figures.loss},
                     {"accuracy", 0.5},
                     {"samples", figures.samples},
                     {"images_per_second", figures.speed}}};
}

TEST_F(Progress, ARowHasTheSpeedOfItsEpochAndNotOfItsLastStep) {
  const record::Event validation{
      .epoch = 1,
      .step = 3,
      .kind = "validation",
      .values = {
          {"loss", 1.0}, {"accuracy", 0.5}, {"samples", 10}, {"best", true}, {"images_per_second", 70.0}}};
  const StepFigures fast{.samples = 128, .speed = 1000};
  const std::string text = on_pipe({}, replay({logged_step(1, fast), logged_step(2, fast),
                                               logged_step(3, {.samples = 32, .speed = 100}), validation}));
  EXPECT_THAT(text, HasSubstr("best  500 images/s\n"));
}

// A logged step stands for those before it that were not.
TEST_F(Progress, ARowWeighsLoggedStepsByWhatTheyStandFor) {
  const record::Event validation{.epoch = 1, .step = 100, .kind = "validation", .values = {{"loss", 1.0}}};
  const std::string text = on_pipe({}, replay({logged_step(1, {.loss = 11, .speed = 1}),
                                               logged_step(100, {.loss = 1, .speed = 100}), validation}));
  EXPECT_THAT(text, HasSubstr("train loss 1.1"));
  EXPECT_THAT(text, HasSubstr("  50 images/s"));  // 1,000 in 10 + 9.9 s
}

TEST_F(Progress, ARunThatBeginsAgainForgetsTheLossesBefore) {
  const record::Event validation{.epoch = 1, .step = 2, .kind = "validation", .values = {{"loss", 1.0}}};
  const std::string text =
      on_pipe({}, replay({logged_step(1, {.loss = 2}), logged_step(2, {.loss = 1e8}),
                          logged_step(1, {.loss = 2}), logged_step(2, {.loss = 1}), validation}));
  EXPECT_THAT(text, HasSubstr("train loss 1.5"));
}

TEST_F(Progress, AnEpochWithoutValidationHasItsRow) {
  const std::string text = on_pipe({}, replay(synthetic_events({.epochs = 3, .validate = false})));
  EXPECT_THAT(text, testing::ContainsRegex("epoch 2/3  step 142  train loss [0-9.]+  accuracy [0-9.]+  3,"));
  EXPECT_THAT(text, testing::ContainsRegex("epoch 3/3  step 213  train loss "));
  EXPECT_THAT(text, HasSubstr("\naccuracy 0.9860 after 3 epochs"));
}

TEST_F(Progress, AnErrorLeavesTheBarAndAFreshLine) {
  const std::string text = on_terminal(80, {}, replay(synthetic_events({.end = false})));
  EXPECT_THAT(text, EndsWith("\n"));
  EXPECT_THAT(on_pipe({}, replay({})), "");
  EXPECT_EQ(on_terminal(80, {}, replay({})), "");
}

TEST_F(Progress, LossesThatAreNoNumbersAreShown) {
  std::vector<record::Event> events = synthetic_events({.epochs = 1});
  for (record::Event& event : events) {
    if (event.kind == "step") event.values["loss"] = "nan";
  }
  EXPECT_THAT(on_pipe({}, replay(events)), HasSubstr("loss nan"));
}

TEST(StatusBar, ShowsMoreWhereThereIsRoom) {
  const Status status{.step = 412,
                      .epoch = 3,
                      .total_steps = 1128,
                      .max_epochs = 8,
                      .loss = 0.0812,
                      .accuracy = 0.9751,
                      .learning_rate = 0.00871,
                      .images_per_second = 3402,
                      .seconds_left = 72};
  for (int columns = 12; columns < 200; ++columns)
    EXPECT_LT(status_bar(status, columns, false).width(), columns);
  EXPECT_THAT(status_bar(status, 40, false).text(), HasSubstr("3/8  loss 0.0812"));
  const std::string wide = status_bar(status, 160, false).text();
  for (const char* part : {"━", "epoch 3/8", "step   412/1,128", "loss 0.0812", "accuracy 0.9751",
                           "lr 0.00871", "3,402 images/s", "1:12 left"})
    EXPECT_THAT(wide, HasSubstr(part));
  EXPECT_THAT(status_bar({.step = 5, .epoch = 1}, 160, false).text(), Not(HasSubstr("─")));
}

TEST(TextCurves, FitAndAreLabelled) {
  for (const int width : {40, 80, 160}) {
    const std::string text = text_curves(synthetic_events(), width, 24);
    for (const std::string& line : split(text, '\n')) EXPECT_LE(width_of(line), width);
    EXPECT_LE(split(text, '\n').size() - 1, 24U);
    EXPECT_THAT(text, HasSubstr("accuracy"));
    EXPECT_THAT(text, HasSubstr("loss"));
    EXPECT_THAT(text, HasSubstr("1.0 ┤"));
  }
  EXPECT_EQ(text_curves({}, 80, 20), "");
  EXPECT_EQ(text_curves(synthetic_events(), 10, 4), "");
}

TEST(History, KeepsValidationsAndEpochs) {
  History history;
  for (const record::Event& event : synthetic_events()) history.add(event);
  EXPECT_EQ(history.validations().size(), 8U);
  EXPECT_EQ(history.epoch_starts().size(), 7U);
  EXPECT_EQ(history.epoch_starts().front(), (std::pair<int64_t, int64_t>(71, 2)));
  EXPECT_EQ(history.data(), "digits-png");
  // A resumed run makes steps again.
  record::Event again{.epoch = 5, .step = 300, .kind = "step", .values = {{"loss", 0.1}, {"accuracy", 0.9}}};
  history.add(again);
  EXPECT_EQ(history.loss.points().back().step, 300);
  EXPECT_EQ(history.validations().size(), 4U);
  EXPECT_EQ(history.epoch_starts().size(), 4U);
}

}  // namespace
}  // namespace lockstep::view
