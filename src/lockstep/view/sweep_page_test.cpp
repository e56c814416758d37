#include "lockstep/view/sweep_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/view/internal/page_head.h"

namespace lockstep::view {
namespace {

using testing::HasSubstr;
using testing::Not;

SweepPage page_of_trials(int64_t trials) {
  SweepPage page{.sweep = "search"};
  page.table.spec.command = {"train", "data"};
  page.table.spec.space.add("rate", "0.01..1:log");
  for (int64_t trial = 0; trial < trials; ++trial)
    page.table.rows.push_back({.trial = trial, .state = sweep::TrialState::ended, .value = 0.5});
  return page;
}

int64_t matrices_in(const std::string& page) {
  int64_t count = 0;
  for (size_t at = page.find("<table class=\"matrix"); at != std::string::npos;
       at = page.find("<table class=\"matrix", at + 1))
    ++count;
  return count;
}

TEST(SweepPage, ComparedTrialsAndOthersHaveAMatrix) {
  SweepPage page = page_of_trials(3);
  const record::KeptConfusion kept{{"cat", "dog"}, {{8, 2}, {1, 9}}};
  page.chosen.push_back({.trial = 0});
  page.chosen[0].report.kept = kept;
  page.chosen[0].report.not_judged = "no <weights>";
  for (const int64_t trial : {1, 2}) page.confusions.push_back({trial, kept});
  const std::string text = sweep_page(page);
  EXPECT_EQ(matrices_in(text), 3);
  for (const char* part :
       {"Not judged: no &lt;weights&gt;", "Most frequent confusions", "Confusion matrices",
        "aria-label=\"confusion matrix of trial 0\"", "aria-label=\"confusion matrix of trial 2\""})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, Not(HasSubstr("too large")));
}

TEST(SweepPage, AMatrixSaysWhichWeightsItIsOf) {
  SweepPage page = page_of_trials(1);
  page.chosen.push_back({.trial = 0});
  Report& report = page.chosen[0].report;
  report.run = "search/trials/0000";
  report.weights = "search/trials/0000/model.safetensors";
  report.judged = true;
  report.judgement.samples = "20 images";
  report.judgement.classes = {"cat", "dog"};
  report.judgement.confusion = {{8, 2}, {1, 9}};
  EXPECT_THAT(sweep_page(page), HasSubstr("; weights after the last step, on 20 images</bdi>"));
  report.weights = "search/trials/0000/best.safetensors";
  EXPECT_THAT(sweep_page(page), HasSubstr("; weights of the best validation, on 20 images</bdi>"));
}

TEST(SweepPage, MatricesOfTheChosenAndTheBestAreOpenAndHaveTheParametersInTheirTitles) {
  SweepPage page = page_of_trials(9);
  page.table.rows[7].parameters = {{"rate", "0.0312345678"}};
  const record::KeptConfusion kept{{"cat", "dog"}, {{8, 2}, {1, 9}}};
  page.chosen.push_back({.trial = 7});
  page.chosen[0].report.kept = kept;
  for (const int64_t trial : {0, 1, 2, 3, 4}) page.confusions.push_back({trial, kept});
  EXPECT_THAT(sweep_page(page), Not(HasSubstr("Open all")));
  page.confusions.push_back({5, kept});
  page.confusions.push_back({6, kept});
  const std::string text = sweep_page(page);
  EXPECT_EQ(matrices_in(text), 8);
  EXPECT_EQ(matrices_in(text.substr(text.find("Open all: 2 more trials"))), 2);
  const size_t grid = text.find("<div id=\"matrices\">");
  EXPECT_LT(grid,
            text.find("<h3>Trial 7: best_accuracy 0.5000</h3>\n<p class=\"sub\"><bdi>rate 0.0312</bdi>"));
  EXPECT_LT(text.find("matrix of trial 7"), text.find("matrix of trial 0"));
  EXPECT_THAT(text, HasSubstr("Blue cells, on the diagonal, are right"));
}

TEST(SweepPage, ResultsOverTrialsHaveTheBestUntilThen) {
  SweepPage page = page_of_trials(3);
  page.table.rows[1].value = 0.7;
  page.table.rows[1].state = sweep::TrialState::early;
  const std::string text = sweep_page(page);
  EXPECT_THAT(text, HasSubstr("aria-label=\"results of 3 trials\""));
  EXPECT_THAT(text, HasSubstr("<title>trial 1: 0.7000</title>"));
  const std::string style = "\" stroke=\"" + page_colours().train + "\" stroke-width=\"1.5\"/>";
  EXPECT_THAT(text, HasSubstr("r=\"4.0\" fill=\"" + page_colours().train + style)) << "it hides no neighbour";
  EXPECT_THAT(text, HasSubstr("r=\"4.0\" fill=\"" + page_colours().paper + style));
  EXPECT_THAT(sweep_page(page_of_trials(101)), HasSubstr("r=\"2.3\""));
  page.table.rows[0].value = -1.7e308;
  page.table.rows[1].value = 1.7e308;
  EXPECT_THAT(sweep_page(page), Not(HasSubstr("results of 3 trials"))) << "their distance is no number";
}

TEST(SweepPage, ATrialThatDivergedLeavesTheOthersRoom) {
  SweepPage page = page_of_trials(4);
  page.table.spec.options.metric = "loss";
  const std::vector<double> losses{0.5, 0.4, 3e30, 0.6};
  for (size_t trial = 0; trial < losses.size(); ++trial) {
    page.table.rows[trial].value = losses[trial];
    page.curves.push_back({.trial = static_cast<int64_t>(trial), .points = {{1, 0.9}, {2, losses[trial]}}});
    page.chosen.push_back({.trial = static_cast<int64_t>(trial)});
  }
  page.table.rows.push_back({.trial = 4, .state = sweep::TrialState::failed});
  page.curve_name = "held-out loss";
  page.parallel = sweep::parallel_coordinates(page.table);
  const std::string text = sweep_page(page);
  EXPECT_THAT(text, HasSubstr("<title>trial 2: 3e+30</title><path"));
  EXPECT_THAT(text, HasSubstr("triangles: 1 trial beyond the axis"));
  EXPECT_THAT(text, HasSubstr("1 result beyond the end of the last axis"));
  EXPECT_THAT(text, HasSubstr("beyond the axis: trial 2<"));
  EXPECT_THAT(text, HasSubstr(">0.50<")) << "a tick among the others";
  for (const char* none : {",nan", ",-nan", ",inf"}) EXPECT_THAT(text, Not(HasSubstr(none)));
  EXPECT_THAT(sweep_page(page_of_trials(4)), Not(HasSubstr("beyond the")));
}

TEST(SweepPage, WhatNoTrialHasIsLeftOutAndOnlyWhatDiffersIsBold) {
  SweepPage page = page_of_trials(2);
  for (const int64_t trial : {0, 1}) page.chosen.push_back({.trial = trial});
  page.table.rows[1].parameters = {{"rate", "0.5"}};
  for (const char* none : {"steps", "0 steps", "weights", "note"})
    EXPECT_THAT(sweep_page(page), Not(HasSubstr(">" + std::string(none) + "<"))) << none;
  EXPECT_THAT(sweep_page(page), HasSubstr("<tr class=\"differs\"><th scope=\"row\"><bdi>rate</bdi>"));
  EXPECT_THAT(sweep_page(page), HasSubstr("<tr><th scope=\"row\"><bdi>state</bdi>"));
  page.table.rows[0].step = 12;
  page.table.rows[1].note = "good";
  for (const char* part : {"<th scope=\"col\" class=\"number\">steps</th>", "<td class=\"text\">good</td>",
                           "<bdi>note</bdi>", "12 steps"})
    EXPECT_THAT(sweep_page(page), HasSubstr(part));
}

TEST(SweepPage, OnlyLongNumbersOfRangesAreRoundedAndWhatDiffersMayLookEqual) {
  SweepPage page = page_of_trials(2);
  page.table.spec.space.add("seed", "1..2000000000");
  page.table.spec.space.add("code", "0.123456789,000000007");
  for (const int64_t trial : {0, 1}) page.chosen.push_back({.trial = trial});
  page.table.rows[0].parameters = {{"rate", "0.0312345678"}, {"seed", "1234567890"}, {"code", "0.123456789"}};
  page.table.rows[1].parameters = {{"rate", "0.0312345679"}, {"seed", "1234567890"}, {"code", "000000007"}};
  const std::string text = sweep_page(page);
  EXPECT_THAT(text, HasSubstr("<tr class=\"differs\"><th scope=\"row\"><bdi>rate</bdi></th>"
                              "<td>0.0312</td><td>0.0312</td>"));
  EXPECT_THAT(text,
              HasSubstr("<tr><th scope=\"row\"><bdi>seed</bdi></th><td>1234567890</td><td>1234567890</td>"));
  EXPECT_THAT(text, HasSubstr("<td>0.123456789</td><td>000000007</td>"));
}

TEST(SweepPage, ComparedCurvesOfOneColourHaveOtherDashes) {
  SweepPage page = page_of_trials(9);
  for (int64_t trial = 0; trial < 9; ++trial) {
    page.chosen.push_back({.trial = trial});
    page.curves.push_back({.trial = trial, .points = {{1, 0.5}, {2, 0.6}}});
  }
  const std::string text = sweep_page(page);
  EXPECT_THAT(text, HasSubstr("stroke=\"var(--compared-0)\" stroke-width=\"3\" /></svg>0</th>"));
  const std::string dashes = "stroke-dasharray=\"7 4\"";
  EXPECT_THAT(text,
              HasSubstr("stroke=\"var(--compared-0)\" stroke-width=\"3\" " + dashes + "/></svg>8</th>"));
  EXPECT_THAT(text, HasSubstr("stroke=\"var(--compared-0)\" stroke-width=\"2.0\" " + dashes + " d="));
}

TEST(SweepPage, ASweepWhoseTrialsAreAllOverIsComplete) {
  SweepPage page = page_of_trials(3);
  page.table.spec.options.count = 3;
  EXPECT_THAT(sweep_page(page), HasSubstr("sweep · complete ·"));
  page.table.rows[1].state = sweep::TrialState::waiting;
  EXPECT_THAT(sweep_page(page), HasSubstr("sweep · does not go on ·"));
  page.table.rows[1].state = sweep::TrialState::failed;
  page.table.spec.options.count = 4;
  EXPECT_THAT(sweep_page(page), HasSubstr("sweep · does not go on ·"));
}

TEST(SweepPage, ImportanceOfFewTrialsIsNotShown) {
  SweepPage page = page_of_trials(20);
  page.importances = {{.parameter = "rate", .share = 0.834, .trials = 14}};
  EXPECT_THAT(sweep_page(page), HasSubstr("83.4<small>"));
  EXPECT_THAT(sweep_page(page), HasSubstr("14 of 20 trials have it, too few to trust"));
  EXPECT_THAT(sweep_page(page), HasSubstr("of all 20 trials that were trained in full"));
  page.table.rows[3].state = sweep::TrialState::early;
  EXPECT_THAT(sweep_page(page), HasSubstr("Too few trials: 19 trained in full"));
  EXPECT_THAT(sweep_page(page), Not(HasSubstr("83.4<small>")));
}

TEST(SweepPage, SaysWhatIsLeftOut) {
  SweepPage page = page_of_trials(1);
  EXPECT_THAT(sweep_page(page), Not(HasSubstr("Confusion matrices")));
  page.confusions_left_out = 1200;
  EXPECT_THAT(sweep_page(page), HasSubstr("1,200 more would make the page too large"));
}

TEST(SweepPage, ALineReachesTheResultWithoutAValueOnAnAxis) {
  SweepPage page = page_of_trials(2);
  page.parallel.axes = {{.name = "rate"}, {.name = "momentum"}, {.name = "result"}};
  page.parallel.lines = {{.trial = 0, .places = {0, sweep::kAbsent, 1}},
                         {.trial = 1, .rank = 1, .places = {0, 0.5, 0}}};
  const std::string text = sweep_page(page);
  const std::string below = "d=\"M90.0,376.0 480.0,402.0 870.0,76.0\"";
  EXPECT_THAT(text, HasSubstr(below));
  EXPECT_THAT(text, HasSubstr(">none</text>"));
  page.parallel.lines.erase(page.parallel.lines.begin());
  EXPECT_THAT(sweep_page(page), Not(HasSubstr(">none</text>")));
}

TEST(SweepPage, AThousandMatricesAreAFewMegabytes) {
  constexpr size_t kTen = 10;
  SweepPage page = page_of_trials(1000);
  const record::KeptConfusion kept{std::vector<std::string>(kTen, "class"),
                                   ConfusionMatrix(kTen, std::vector<int64_t>(kTen, 12))};
  for (int64_t trial = 0; trial < 1000; ++trial) page.confusions.push_back({trial, kept});
  const std::string text = sweep_page(page);
  EXPECT_EQ(matrices_in(text), 1000);
  EXPECT_LT(text.size(), 8'000'000U);
}

TEST(SweepPage, NamesOfClassesAreNeverMarkup) {
  SweepPage page = page_of_trials(1);
  page.confusions.push_back({0, {{"<script>\"'&", "\xFF\x1B"}, {{1, 2}, {3, 4}}}});
  const std::string text = sweep_page(page);
  EXPECT_THAT(text, Not(HasSubstr("<script")));
  EXPECT_THAT(text, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(text, Not(HasSubstr("\xFF")));
}

}  // namespace
}  // namespace lockstep::view
