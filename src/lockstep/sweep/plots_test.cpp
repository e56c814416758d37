#include <cmath>
#include <filesystem>

#include <gmock/gmock.h>

#include "lockstep/sweep/importance.h"
#include "lockstep/sweep/internal/claims.h"
#include "lockstep/sweep/internal/moved_workers.h"
#include "lockstep/sweep/parallel_coordinates.h"

namespace lockstep::sweep {
namespace {

Table table_of(const std::vector<Row>& rows) {
  Table table;
  table.spec.command = {"train", "data"};
  table.spec.space.add("rate", "0.01..1:log");
  table.spec.space.add("network", "a,b");
  table.spec.space.add("momentum", "0.0..0.5:when=network=b");
  table.rows = rows;
  return table;
}

Row row_of(int64_t trial, double value, const Assignment& parameters) {
  return {.trial = trial, .state = TrialState::ended, .parameters = parameters, .value = value};
}

TEST(ParallelCoordinates, PlacesTheBestFirst) {
  const Table table = table_of({row_of(0, 0.5, {{"rate", "0.1"}, {"network", "a"}}),
                                row_of(1, 0.9, {{"rate", "1"}, {"network", "b"}, {"momentum", "0.125"}}),
                                {.trial = 2, .state = TrialState::failed},
                                {.trial = 3, .state = TrialState::running}});
  const ParallelCoordinates plot = parallel_coordinates(table);
  ASSERT_EQ(plot.axes.size(), 4u);
  EXPECT_EQ(plot.axes.back().name, "best_accuracy");
  EXPECT_EQ(plot.axes.back().high, 0.9);
  ASSERT_EQ(plot.lines.size(), 2u);
  EXPECT_EQ(plot.lines[0].trial, 1);
  EXPECT_EQ(plot.lines[0].places, (std::vector<double>{1, 0.75, 0.25, 1}));
  EXPECT_NEAR(plot.lines[1].places[0], 0.5, 1e-12);
  EXPECT_TRUE(std::isnan(plot.lines[1].places[2]));
  EXPECT_EQ(plot.lines[1].rank, 1);
}

TEST(ParallelCoordinates, ResultsMayBeAsFarApartAsNumbersCanBe) {
  const ParallelCoordinates plot =
      parallel_coordinates(table_of({row_of(0, -1e308, {}), row_of(1, 1e308, {}), row_of(2, 0, {})}));
  ASSERT_EQ(plot.lines.size(), 3u);
  EXPECT_EQ(plot.lines[0].places.back(), 1);
  EXPECT_EQ(plot.lines[1].places.back(), 0.5);
  EXPECT_EQ(plot.lines[2].places.back(), 0);
}

TEST(ParallelCoordinates, ATrialThatDivergedLeavesTheOthersRoom) {
  Table table = table_of(
      {row_of(0, 0.5, {}), row_of(1, 1e30, {}), row_of(2, 0.4, {}), row_of(3, 0.6, {}), row_of(4, 2, {})});
  table.spec.options.metric = "loss";
  const ParallelCoordinates plot = parallel_coordinates(table);
  EXPECT_EQ(plot.axes.back().low, 0.4);
  EXPECT_EQ(plot.axes.back().high, 2);
  EXPECT_EQ(plot.axes.back().beyond, 1);
  ASSERT_EQ(plot.lines.size(), 5u);
  EXPECT_EQ(plot.lines.back().trial, 1);
  EXPECT_EQ(plot.lines.back().places.back(), 1);
  table.rows = {row_of(0, 0.5, {}), row_of(1, 1e30, {})};
  EXPECT_EQ(shown_results(table).beyond, 0) << "which of two is usual?";
}

TEST(ParallelCoordinates, HasAxesWithoutTrials) {
  EXPECT_TRUE(parallel_coordinates(table_of({})).lines.empty());
  EXPECT_EQ(parallel_coordinates(table_of({})).axes.size(), 4u);
}

TEST(Importances, NameWhatMatters) {
  std::vector<Row> rows;
  for (int i = 0; i < 100; ++i) {
    const double rate = std::pow(10, -2.0 * i / 99);
    rows.push_back(row_of(i, -std::abs(std::log10(rate) + 1),
                          {{"rate", std::to_string(rate)}, {"network", i % 2 == 0 ? "a" : "b"}}));
  }
  const std::vector<Importance> found = importances(table_of(rows));
  ASSERT_EQ(found.size(), 2u);  // no trial has a momentum
  EXPECT_EQ(found[0].parameter, "rate");
  EXPECT_GT(found[0].share, 0.95);
  EXPECT_EQ(found[0].trials, 100);
  rows[7].parameters.emplace_back("momentum", "0.2");
  const std::vector<Importance> with_momentum = importances(table_of(rows));
  ASSERT_EQ(with_momentum.size(), 3u);
  EXPECT_EQ(with_momentum[2].parameter, "momentum");
  EXPECT_EQ(with_momentum[2].trials, 1) << "among those that have it";
  EXPECT_TRUE(importances(table_of({})).empty());
}

// As in a log that was changed by hand.
TEST(Importances, LeaveOutValuesThatTheParameterCannotHave) {
  std::vector<Row> rows;
  for (int i = 0; i < 20; ++i)
    rows.push_back(row_of(i, i, {{"rate", i % 2 == 0 ? "0.1" : "0.5"}, {"network", "a"}}));
  const auto expected = importances(table_of(rows));
  for (const char* rate : {"-1", "0", "nan", "inf", "2"}) {
    std::vector<Row> more = rows;
    more.push_back(row_of(20, -1, {{"rate", rate}, {"network", "a"}}));
    for (const ParallelLine& line : parallel_coordinates(table_of(more)).lines)
      EXPECT_EQ(std::isnan(line.places[0]), line.trial == 20) << rate;
    const auto found = importances(table_of(more));
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_TRUE(std::isfinite(found[0].divergence)) << rate;
  }
}

TEST(ParallelCoordinates, AnEmptyTextIsAChoice) {
  Table table;
  table.spec.space = Space::from_json(parse_json(R"({"weights": ["", "file"]})"));
  table.rows = {row_of(0, 0.9, {{"weights", ""}}), row_of(1, 0.5, {})};
  const ParallelCoordinates plot = parallel_coordinates(table);
  EXPECT_EQ(plot.lines[0].places[0], 0.25);
  EXPECT_TRUE(std::isnan(plot.lines[1].places[0]));
}

TEST(Claims, TellADeathFromAnEnd) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "lockstep-claims";
  std::filesystem::remove_all(folder);
  const Segment segment{7, 90};
  Claims other(folder);
  {
    Claims dies(folder);
    EXPECT_EQ(dies.take(segment), Claim::taken);
    EXPECT_EQ(other.take(segment), Claim::other);
  }
  EXPECT_EQ(other.take(segment), Claim::after_death);
  other.release(segment);
  EXPECT_EQ(Claims(folder).take(segment), Claim::taken);
  EXPECT_EQ(other.take({7, 0}), Claim::taken);
}

TEST(MovedWorkers, AreSharedOutEvenly) {
  EXPECT_EQ(workers_for({.all = 8, .trials = 8, .least = 1}), 1);
  EXPECT_EQ(workers_for({.all = 8, .trials = 3, .least = 1}), 2);
  EXPECT_EQ(workers_for({.all = 8, .trials = 20, .least = 2}), 2);
  EXPECT_EQ(workers_for({.all = 8, .trials = 0, .least = 1}), 8);
}

}  // namespace
}  // namespace lockstep::sweep
