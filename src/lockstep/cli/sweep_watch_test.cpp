#include "lockstep/cli/sweep_watch.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

sweep::Table table_of(int64_t trials) {
  sweep::Table table;
  table.spec.command = {"train", "data"};
  table.spec.space.add("rate", "0.001..0.1:log");
  for (int64_t trial = 0; trial < trials; ++trial)
    table.rows.push_back({.trial = trial,
                          .state = sweep::TrialState::ended,
                          .parameters = {{"rate", "0.01"}},
                          .value = static_cast<double>(trial) / 100,
                          .note = trial == 3 ? "a note that is much longer than the screen is wide" : ""});
  return table;
}

TEST(SweepScreen, FitsTheTerminalAndShowsTheMarkedRow) {
  const sweep::Table table = table_of(40);
  SweepView view;
  for (const int64_t trial : {0, 39, 3, 20}) {
    view.trial = trial;
    const std::vector<std::string> lines = sweep_screen(table, view, 50, 12);
    ASSERT_EQ(lines.size(), 12u);
    int marked = 0;
    for (const std::string& line : lines) {
      if (!line.starts_with("\033")) {
        EXPECT_LE(width_of(line), 50);
      }
      if (line.starts_with("\033[7m")) {
        ++marked;
        EXPECT_THAT(line, HasSubstr(" " + std::to_string(trial) + "  ended"));
      }
    }
    EXPECT_EQ(marked, 1);
  }
}

TEST(SweepScreen, MarksARowThatIsThere) {
  SweepView view{.rows = {.sort = "result", .filter = "trial=7"}, .trial = 2};
  EXPECT_THAT(sweep_screen(table_of(10), view, 80, 24)[1], StartsWith("\033[7m"));
  EXPECT_EQ(view.trial, 7);
  view.rows.filter = "state=failed";
  EXPECT_EQ(sweep_screen(table_of(10), view, 80, 24).size(), 4u);
  EXPECT_EQ(sweep_screen(table_of(0), view, 80, 24).size(), 4u);
}

TEST(SweepScreen, ShowsTheEndOfALongAnswer) {
  SweepView view{.prompt = "note of trial 3: "};
  EXPECT_EQ(sweep_screen(table_of(4), view, 12, 24)[6], "note of tria");
  view.typed = "diverges after the dönerstag 漢字";
  EXPECT_EQ(sweep_screen(table_of(4), view, 12, 24)[6], "erstag 漢字▏");
  EXPECT_THAT(sweep_screen(table_of(4), view, 80, 24)[6], StartsWith("note of trial 3: diverges"));
}

TEST(SweepScreen, ShowsAllKeysIn80Columns) {
  SweepView view;
  const std::string keys = sweep_screen(table_of(4), view, 80, 24).back();
  EXPECT_THAT(keys, HasSubstr("q quit"));
  EXPECT_THAT(keys, HasSubstr("S stop sweep"));
}

TEST(SweepScreen, ShowsTheColumnsOnTheRightOfANarrowTerminal) {
  sweep::Table table = table_of(3);
  for (const char* name : {"weight-decay", "optimizer", "last"}) {
    table.spec.space.add(name, "a,b");
    for (sweep::Row& row : table.rows) row.parameters.emplace_back(name, "a");
  }
  SweepView view;
  EXPECT_THAT(sweep_screen(table, view, 50, 24)[0], Not(HasSubstr("last")));
  view.left_out = 1;
  EXPECT_THAT(sweep_screen(table, view, 50, 24)[0], AllOf(HasSubstr("trial"), Not(HasSubstr("state"))));
  view.left_out = 100;
  EXPECT_THAT(sweep_screen(table, view, 50, 24)[0], AllOf(HasSubstr("trial"), HasSubstr("last")));
  EXPECT_LT(view.left_out, 5) << "no more than are needed";
  EXPECT_THAT(sweep_screen(table, view, 200, 24)[0], HasSubstr("state"));
  EXPECT_EQ(view.left_out, 0) << "the terminal has become wider";
  for (const int width : {25, 65, 70}) {
    const std::string keys = sweep_screen(table, view, width, 24).back();
    EXPECT_THAT(keys, AllOf(HasSubstr("q quit"), HasSubstr("S"))) << width;
  }
  EXPECT_THAT(sweep_screen(table, view, 70, 24).back(), HasSubstr("S stop all"));
}

// "10" is before "1a" and "1a" before "9" as texts, but 9 is before 10.
TEST(SweepTable, SortsNumbersBeforeTexts) {
  sweep::Table table = table_of(5);
  table.spec.space.add("size", "10,1a,9,100");
  const std::vector<std::string> sizes{"9", "1a", "10", "100"};
  for (size_t i = 0; i < sizes.size(); ++i) table.rows[i].parameters.emplace_back("size", sizes[i]);
  std::vector<std::string> sorted;
  for (const sweep::Row* row : chosen_rows(table, {.sort = "size"})) sorted.push_back(text_of(*row, "size"));
  EXPECT_THAT(sorted, testing::ElementsAre("", "9", "10", "100", "1a"));
}

TEST(SweepTable, ShowsTrialsWithoutAResultLastInEitherOrder) {
  sweep::Table table = table_of(4);
  table.rows[1].value.reset();
  const auto shown = [&](const std::string& sort) {
    std::vector<int64_t> trials;
    for (const sweep::Row* row : chosen_rows(table, {.sort = sort})) trials.push_back(row->trial);
    return trials;
  };
  EXPECT_THAT(shown("result"), testing::ElementsAre(3, 2, 0, 1));
  EXPECT_THAT(shown("-result"), testing::ElementsAre(0, 2, 3, 1));
  EXPECT_EQ(shown("-best_accuracy"), shown("-result"));
}

// The best trial is the first one, also if one that ended early, or is trained still, was better by then.
TEST(SweepTable, HasItsBestTrialFirst) {
  sweep::Table table = table_of(6);
  table.rows[0].state = sweep::TrialState::early;
  table.rows[0].value = 0.9;
  table.rows[1].state = sweep::TrialState::running;
  table.rows[1].value = 0.95;
  table.rows[2].value = table.rows[4].value = 0.5;
  table.rows[5].value.reset();
  table.rows[5].state = sweep::TrialState::failed;
  const auto shown = [&](const std::string& sort) {
    std::vector<int64_t> trials;
    for (const sweep::Row* row : chosen_rows(table, {.sort = sort})) trials.push_back(row->trial);
    return trials;
  };
  EXPECT_EQ(table.best()->trial, 2);
  EXPECT_THAT(shown("result"), testing::ElementsAre(2, 4, 3, 0, 1, 5));
  EXPECT_THAT(shown("-result"), testing::ElementsAre(0, 3, 4, 2, 1, 5));
  table.spec.options.goal = sweep::Goal::minimize;
  EXPECT_EQ(table.best()->trial, 3);
  EXPECT_THAT(shown("result"), testing::ElementsAre(3, 2, 4, 0, 1, 5));
}

TEST(SweepScreen, SaysThatItIsACopy) {
  SweepView view{.copy = "a copy of far:/there"};
  sweep::Table table = table_of(3);
  std::vector<std::string> lines = sweep_screen(table, view, 80, 24);
  EXPECT_EQ(lines[lines.size() - 3], "a copy of far:/there");
  table.spec.not_reproducible = {"--max-time"};
  lines = sweep_screen(table, view, 200, 24);
  EXPECT_EQ(lines[lines.size() - 3],
            "a copy of far:/there; another sweep may give another table, because of --max-time");
}

TEST(SweepTable, SaysWhatMayGiveAnotherOne) {
  sweep::Table table = table_of(3);
  const std::string text = sweep_table_text(table, {}, 0, 3);
  table.spec.not_reproducible = {"--max-time"};
  const std::string mark = "another sweep may give another table, because of --max-time";
  EXPECT_EQ(sweep_table_text(table, {}, 0, 3), text + mark + "\n");
  SweepView view;
  std::vector<std::string> lines = sweep_screen(table, view, 80, 24);
  EXPECT_EQ(lines[lines.size() - 3], mark);
  EXPECT_THAT(lines[lines.size() - 4], StartsWith("3 of 20 trials"));
  table = table_of(40);
  table.spec.not_reproducible = {"--exchange average without --shards", "--scale-with-workers",
                                 "--metric \033[2Jseconds"};
  lines = sweep_screen(table, view, 80, 24);
  EXPECT_EQ(lines.size(), 24u);
  EXPECT_EQ(lines[lines.size() - 4],
            "another sweep may give another table, because of --exchange average without");
  EXPECT_EQ(lines[lines.size() - 3], "--shards and --scale-with-workers and --metric ?[2Jseconds");
  for (const size_t height : {5u, 6u, 7u}) {
    lines = sweep_screen(table, view, 20, static_cast<int>(height));
    EXPECT_EQ(lines.size(), height);
    EXPECT_THAT(lines[1], StartsWith("\033[7m"));
    EXPECT_THAT(lines[2], StartsWith("40 trials")) << "below one row";
  }
}

// The trials that a filter shows, or its error.
std::string filtered(const sweep::Table& table, const std::string& filter) {
  try {
    std::vector<std::string> trials;
    for (const sweep::Row* row : chosen_rows(table, {.filter = filter}))
      trials.push_back(std::to_string(row->trial));
    return join(trials, " ");
  } catch (const Error& error) {
    return error.message() + "; " + error.hint();
  }
}

TEST(SweepTable, ShowsTheRowsThatFitAllConditions) {
  sweep::Table table = table_of(5);
  table.spec.space.add("x", "two words,a,b");
  const std::vector<std::string> values{"two words", "a", "b", "two words"};
  for (size_t i = 0; i < values.size(); ++i) table.rows[i].parameters.emplace_back("x", values[i]);
  table.rows[1].error = "the loss became NaN";
  table.rows[4].value = 0.00012345678;
  for (const auto& [filter, trials] :
       std::vector<std::pair<std::string, std::string>>{{R"(x="two words")", "0 3"},
                                                        {R"("two words" result<0.03)", "0"},
                                                        {"'x=two words'", "0 3"},
                                                        {"x!=a", "0 2 3 4"},
                                                        {"x=", "4"},
                                                        {"state=ended trial>=3", "3 4"},
                                                        {"trial<=1", "0 1"},
                                                        {"best_accuracy>=0.03", "3"},
                                                        {"note=nan", "1"},
                                                        {"note=", "0 2 4"},
                                                        {"trial=1.0", "1"},
                                                        {"result=0.0001235", "4"},
                                                        {"words two", "0 3"},
                                                        {" ", "0 1 2 3 4"}})
    EXPECT_EQ(filtered(table, filter), trials) << filter;
  EXPECT_EQ(filtered(table, "\"loss=nan\""), "") << "a text that no row has";
  EXPECT_THAT(filtered(table, "x=two words"), HasSubstr(R"(write x="two words")"));
  EXPECT_THAT(filtered(table, "state=runing"), HasSubstr("did you mean running?"));
  EXPECT_THAT(filtered(table, "x=\"two"), HasSubstr("has a quote without an end"));
  EXPECT_THAT(filtered(table, "state=7"), HasSubstr("it is one of waiting, running, ended"));
  EXPECT_THAT(filtered(table, "trial>=b"), HasSubstr("compares with no number"));
  EXPECT_THAT(filtered(table, "trial>nan"), HasSubstr("compares with no number"));
  EXPECT_THAT(filtered(table, "y!=2"), HasSubstr("has no column \"y\""));
}

TEST(SweepTable, SaysThatNoRowFits) {
  constexpr const char* kNone = "no trial fits the filter \"trial>2000\"\n";
  EXPECT_THAT(sweep_table_text(table_of(1000), {.filter = "trial>2000"}, 0, 1000), HasSubstr(kNone));
  EXPECT_THAT(sweep_table_text(table_of(1000), {.filter = "trial>20"}, 0, 1000), Not(HasSubstr(kNone)));
  EXPECT_THAT(sweep_table_text(table_of(0), {}, 0, 1000), Not(HasSubstr("no trial fits")));
}

TEST(SweepTable, SaysHowManyRowsFitAndNamesTheStarThatIsShown) {
  const auto end_of = [](const SweepRows& choice) {
    return split(sweep_table_text(table_of(12), choice, 0, 12), '\n').end()[-2];
  };
  EXPECT_EQ(end_of({}), "12 trials: 12 ended; * is the best");
  EXPECT_EQ(end_of({.filter = "trial<4"}), "4 shown of 12 trials: 12 ended");
  EXPECT_EQ(end_of({.filter = "trial>9"}), "2 shown of 12 trials: 12 ended; * is the best");
  EXPECT_EQ(end_of({.limit = 3}), "12 trials: 12 ended");
  EXPECT_EQ(end_of({.filter = "trial>20"}), "12 trials: 12 ended");
}

TEST(SweepTable, TellsSmallResultsApart) {
  sweep::Table table = table_of(3);
  table.rows[0].value = 0.0000123456;
  table.rows[1].value = -3e-7;
  const std::string text = sweep_table_text(table, {}, 0, 3);
  EXPECT_THAT(text, HasSubstr(" 1.235e-05 "));
  EXPECT_THAT(text, HasSubstr(" -3e-07 "));
  EXPECT_THAT(text, HasSubstr(" 0.0200 "));
}

TEST(SweepTable, CountsTheTrialsOfAnotherSearchAnew) {
  sweep::SweepSpec spec = table_of(0).spec;
  PlannedTrials planned;
  EXPECT_EQ(planned.of(spec), 20);
  EXPECT_EQ(planned.of(spec), 20);
  spec.options.count = 30;
  EXPECT_EQ(planned.of(spec), 30);
  spec.options.search = sweep::SearchKind::grid;
  spec.options.grid_steps = 4;
  EXPECT_EQ(planned.of(spec), 4);
  spec.space.add("size", "9,10");
  EXPECT_EQ(planned.of(spec), 8);
}

TEST(SweepScreen, CountsTheTrialsThatAreToCome) {
  SweepView view;
  const std::vector<std::string> lines = sweep_screen(table_of(3), view, 80, 24);
  EXPECT_THAT(lines[lines.size() - 3], StartsWith("3 of 20 trials: 3 ended; "));
}

TEST(SweepScreen, SaysHowRowsAreSorted) {
  SweepView view{.rows = {.sort = "-result"}};
  std::vector<std::string> lines = sweep_screen(table_of(20), view, 80, 30);
  EXPECT_EQ(lines[lines.size() - 3], "20 trials: 20 ended; sorted by result backwards");
  view.rows.sort = "result";
  lines = sweep_screen(table_of(20), view, 80, 30);
  EXPECT_EQ(lines[lines.size() - 3], "20 trials: 20 ended; sorted by result");
}

TEST(SweepTable, SaysHowManyTrialsComeAndHowManyRowsAreLeftOut) {
  EXPECT_EQ(sweep_counts_text(table_of(3), 20), "3 of 20 trials: 3 ended");
  EXPECT_EQ(sweep_counts_text(table_of(20), 20), "20 trials: 20 ended");
  EXPECT_EQ(sweep_counts_text(table_of(0), 20), "0 of 20 trials");
  EXPECT_THAT(best_rows_text(table_of(20), "a search", 0),
              testing::EndsWith("the best 10 of 20; lockstep sweep show 'a search' lists all\n"));
  EXPECT_THAT(best_rows_text(table_of(10), "search", 0), testing::Not(HasSubstr("lists all")));
  EXPECT_EQ(short_number("0.0015227837876909728"), "0.001523");
}

}  // namespace
}  // namespace lockstep::cli
