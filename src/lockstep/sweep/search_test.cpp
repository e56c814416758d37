#include "lockstep/sweep/search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/base/seed.h"

namespace lockstep::sweep {
namespace {

Space space_of_two() {
  Space space;
  space.add("x", "0.0..1.0");
  space.add("c", "a,b,c");
  return space;
}

constexpr int64_t kFullSteps = 100;

// A training whose result is known: it nears its best like 1 / steps.
Outcome train(const Trial& trial, const Segment& segment) {
  const int64_t step = segment.until > 0 ? std::min(segment.until, kFullSteps) : kFullSteps;
  const double best = 1 - std::pow(trial.point[0] - 0.3, 2) - 0.1 * trial.point[1];
  return {.state = step < kFullSteps ? TrialState::waiting : TrialState::ended,
          .value = best - 1 / static_cast<double>(step),
          .step = step,
          .total_steps = kFullSteps};
}

// Trains `places` segments at once; which of them ends next is random.
std::vector<std::string> table_of(const SearchOptions& options, size_t places, uint64_t seed) {
  Search search(space_of_two(), options);
  Random random(seed);
  std::map<Segment, Outcome> ended;
  std::vector<Segment> running;
  while (search.next()) {
    for (const Segment& segment : search.under_way()) {
      const bool is_begun =
          ended.contains(segment) || std::find(running.begin(), running.end(), segment) != running.end();
      if (!is_begun && running.size() < places) running.push_back(segment);
    }
    const auto one = running.begin() + static_cast<std::ptrdiff_t>(random.below(running.size()));
    ended[*one] = train(search.trials()[static_cast<size_t>(one->trial)], *one);
    running.erase(one);
    for (auto next = search.next(); next && ended.contains(*next); next = search.next())
      search.tell(*next, ended[*next]);
  }
  std::vector<std::string> table;
  for (const Trial& trial : search.trials())
    table.push_back(std::to_string(trial.point[0]) + " " + std::to_string(trial.point[1]) + " " +
                    enum_names(trial.state)[static_cast<size_t>(trial.state)] + " " +
                    std::to_string(trial.step) + " " + std::to_string(trial.value));
  table.push_back("best " + std::to_string(search.best()->number));
  return table;
}

class SearchOfAnyWidth : public testing::TestWithParam<std::pair<SearchKind, StopRule>> {};

TEST_P(SearchOfAnyWidth, GivesOneTable) {
  const auto [kind, stop] = GetParam();
  const SearchOptions options{.sampler = {.kind = kind, .seed = 5},
                              .count = 40,
                              .stop = stop,
                              .first_rung = stop == StopRule::none ? 0 : 4};
  const auto expected = table_of(options, 1, 1);
  EXPECT_GE(expected.size(), 16u);
  for (const size_t places : {2, 3, 8, 20}) EXPECT_EQ(table_of(options, places, places), expected) << places;
}

INSTANTIATE_TEST_SUITE_P(All, SearchOfAnyWidth,
                         testing::Values(std::pair{SearchKind::grid, StopRule::none},
                                         std::pair{SearchKind::random, StopRule::none},
                                         std::pair{SearchKind::sobol, StopRule::asha},
                                         std::pair{SearchKind::tpe, StopRule::none},
                                         std::pair{SearchKind::tpe, StopRule::asha},
                                         std::pair{SearchKind::tpe, StopRule::median},
                                         std::pair{SearchKind::gp, StopRule::asha}));

TEST(Search, ATrialSeesThoseMoreThanTheLagBefore) {
  Search search(space_of_two(), {.count = 10, .lag = 3});
  EXPECT_EQ(search.under_way().size(), 4u);  // trial 3 needs none, trial 4 needs trial 0
  search.tell({0, 0}, {.value = 1});
  EXPECT_EQ(search.under_way().back(), (Segment{4, 0}));
  EXPECT_THROW(search.tell({2, 0}, {.value = 1}), Error);
}

TEST(Search, ResultsThatNoTrialDependsOnAreToldInAnyOrder) {
  for (const SearchKind kind : {SearchKind::random, SearchKind::sobol, SearchKind::grid}) {
    const SearchOptions options{.sampler = {.kind = kind}, .count = 4};
    Search in_turn(space_of_two(), options), reversed(space_of_two(), options);
    EXPECT_EQ(in_turn.next(), (Segment{0, 0}));
    ASSERT_TRUE(reversed.tells_in_any_order());
    EXPECT_EQ(reversed.under_way().size(), 4u);
    for (int64_t trial = 0; trial < 4; ++trial) in_turn.tell({trial, 0}, {.value = 1});
    for (int64_t trial = 3; trial >= 0; --trial) {
      EXPECT_TRUE(reversed.is_under_way({trial, 0}));
      reversed.tell({trial, 0}, {.value = 1});
      EXPECT_FALSE(reversed.is_under_way({trial, 0}));
    }
    EXPECT_FALSE(reversed.next());
    for (size_t trial = 0; trial < 4; ++trial)
      EXPECT_EQ(reversed.trials()[trial].point, in_turn.trials()[trial].point);
  }
  for (const StopRule stop : {StopRule::asha, StopRule::median})
    EXPECT_FALSE(
        Search(space_of_two(), {.sampler = {.kind = SearchKind::random}, .stop = stop, .first_rung = 4})
            .tells_in_any_order());
}

// A free sweep asks for as many as it has places: one more than its lag.
TEST(Search, AFreeSearchWithAStopRuleFillsAllPlaces) {
  for (const StopRule stop : {StopRule::none, StopRule::asha, StopRule::median}) {
    Search search(space_of_two(), {.count = 10, .lag = 1, .stop = stop, .first_rung = 4, .free = true});
    EXPECT_EQ(search.under_way().size(), 2u);
    EXPECT_EQ(search.width(), 2);
  }
}

TEST(Search, AshaTrainsFewTrialsInFull) {
  Search search(space_of_two(), {.sampler = {.kind = SearchKind::random, .seed = 1},
                                 .count = 27,
                                 .stop = StopRule::asha,
                                 .first_rung = 10});
  int64_t steps = 0;
  while (const auto next = search.next()) {
    const Trial before = search.trials()[static_cast<size_t>(next->trial)];
    const Outcome outcome = train(before, *next);
    steps += outcome.step - before.step;
    search.tell(*next, outcome);
  }
  int64_t full = 0;
  double best = 0;
  for (const Trial& trial : search.trials()) {
    full += trial.state == TrialState::ended;
    best = std::max(best, train(trial, {}).value);
    EXPECT_NE(trial.state, TrialState::waiting);
  }
  EXPECT_GE(full, 1);
  EXPECT_LT(full, 9);
  EXPECT_LT(steps, 27 * kFullSteps * 4 / 10);
  EXPECT_NEAR(search.best()->value, best, 0.003);
}

// {rung: trials that reached it} for trials with these values.
std::map<size_t, int64_t> reached_rungs(Search& search, const std::function<double(int64_t)>& value) {
  while (const auto next = search.next()) {
    Outcome outcome = train(search.trials()[static_cast<size_t>(next->trial)], *next);
    outcome.value = value(next->trial);
    search.tell(*next, outcome);
  }
  std::map<size_t, int64_t> reached;
  for (const Trial& trial : search.trials()) ++reached[trial.at_rungs.size()];
  return reached;
}

SearchOptions asha_with_27() {
  return {.sampler = {.kind = SearchKind::random, .seed = 1},
          .count = 27,
          .lag = 1,
          .stop = StopRule::asha,
          .first_rung = 10};
}

// Each trial is better than all before it, so that the best part changes with every one.
TEST(Search, AshaPromotesItsPartAndThoseWhosePlaceWasTaken) {
  Search search(space_of_two(), asha_with_27());
  auto reached = reached_rungs(search, [](int64_t trial) { return static_cast<double>(trial); });
  for (int64_t trial = 18; trial < 27; ++trial)
    EXPECT_GE(search.trials()[static_cast<size_t>(trial)].at_rungs.size(), 2U) << trial;
  EXPECT_LE(reached[2] + reached[3], 9 + 6);
  EXPECT_LE(reached[3], 3 + 5);
  EXPECT_EQ(search.best()->number, 26);
}

// Each trial is worse than all before it: at most nine of 27 can ever be in the best part of the first rung.
TEST(Search, AshaEndsPausedTrialsAsSoonAsTheyCannotGoOn) {
  Search search(space_of_two(), asha_with_27());
  std::vector<int64_t> over;
  while (const auto next = search.next()) {
    Outcome outcome = train(search.trials()[static_cast<size_t>(next->trial)], *next);
    outcome.value = -static_cast<double>(next->trial);
    const std::vector<int64_t> now = search.tell(*next, outcome);
    if (outcome.step == 10) {
      EXPECT_EQ(std::count(now.begin(), now.end(), next->trial), next->trial < 9 ? 0 : 1);
    }
    over.insert(over.end(), now.begin(), now.end());
  }
  for (const Trial& trial : search.trials()) EXPECT_TRUE(is_over(trial.state)) << trial.number;
  std::sort(over.begin(), over.end());
  EXPECT_EQ(over.size(), 27u);  // each once
  EXPECT_EQ(std::unique(over.begin(), over.end()), over.end());
}

// The last of 26 trials is the best, when 8 have gone on already, and 2 of these.
TEST(Search, AshaTrainsTheBestTrialHoweverLateItComes) {
  SearchOptions options = asha_with_27();
  options.count = 26;
  Search search(space_of_two(), options);
  auto reached =
      reached_rungs(search, [](int64_t trial) { return trial == 25 ? 1 : -static_cast<double>(trial); });
  EXPECT_EQ(search.best()->number, 25);
  EXPECT_EQ(search.best()->state, TrialState::ended);
  EXPECT_EQ(reached[2] + reached[3], 9);
}

// The last of five trials is the best. It comes to the second rung before the first one goes on from there.
TEST(Search, AshaFillsLowerRungsBeforeItLetsOthersGoOn) {
  SearchOptions options = asha_with_27();
  options.count = 5;
  Search search(space_of_two(), options);
  const std::vector<double> values{0.5, 0.1, 0.2, 0.3, 0.9};
  auto reached = reached_rungs(search, [&](int64_t trial) { return values[static_cast<size_t>(trial)]; });
  EXPECT_EQ(search.best()->number, 4);
  EXPECT_EQ(reached[2], 1);
  EXPECT_EQ(reached[3], 1);
}

// At each rung the best third has gone on, with as many trials as a long sweep has.
TEST(Search, AshaPromotesTheBestThirdOfTenThousandTrials) {
  Search search(space_of_two(), {.sampler = {.kind = SearchKind::random, .seed = 1},
                                 .count = 10000,
                                 .stop = StopRule::asha,
                                 .first_rung = 1});
  while (const auto next = search.next())
    search.tell(*next, train(search.trials()[static_cast<size_t>(next->trial)], *next));
  for (size_t rung = 0; rung < 5; ++rung) {
    std::vector<const Trial*> there;
    for (const Trial& trial : search.trials()) {
      if (trial.at_rungs.size() > rung) there.push_back(&trial);
    }
    std::stable_sort(there.begin(), there.end(),
                     [&](const Trial* a, const Trial* b) { return a->at_rungs[rung] > b->at_rungs[rung]; });
    ASSERT_GE(there.size(), 3U) << rung;
    for (size_t i = 0; i < there.size() / 3; ++i)
      EXPECT_TRUE(there[i]->at_rungs.size() > rung + 1 || there[i]->state == TrialState::ended) << rung;
  }
}

TEST(Search, TheMedianRuleEndsTrialsThatAreWorseThanHalfOfTheEarlierOnes) {
  SearchOptions options = asha_with_27();
  options.stop = StopRule::median;
  options.count = 9;
  Search search(space_of_two(), options);
  const std::vector<double> values{0.1, 0.5, 0.3, 0.4, 0.2, 0.3, 0.29, 0.3, 0.31};
  reached_rungs(search, [&](int64_t trial) { return values[static_cast<size_t>(trial)]; });
  std::vector<int64_t> early;
  for (const Trial& trial : search.trials()) {
    if (trial.state == TrialState::early) early.push_back(trial.number);
  }
  EXPECT_THAT(early, testing::ElementsAre(6));
}

TEST(Rung, KnowsItsBestPartAndItsMedian) {
  Random random(1);
  for (const int64_t parts : {2, 3, 7}) {
    Rung rung(parts);
    std::vector<Rung::Place> sorted;
    for (int64_t trial = 0; trial < 60; ++trial) {
      sorted.push_back({static_cast<double>(random.below(20)), trial});  // some are equal
      rung.add(sorted.back());
      std::sort(sorted.begin(), sorted.end());
      const size_t count = sorted.size();
      ASSERT_EQ(rung.size(), count);
      ASSERT_EQ(rung.part(), count / static_cast<size_t>(parts));
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(rung.is_in_part(sorted[i]), i < rung.part());
        ASSERT_EQ(rung.is_best(sorted[i]), i == 0);
      }
      const double upper = sorted[count / 2].loss, lower = sorted[(count - 1) / 2].loss;
      if (parts == 2) {
        ASSERT_EQ(rung.median(), (lower + upper) / 2);
      }
    }
  }
}

TEST(Search, ATrialThatIsTrainedInFullDoesNotWait) {
  SearchOptions options = asha_with_27();
  options.count = 1;
  Search search(space_of_two(), options);
  for (int asked = 0; const auto next = search.next(); ++asked) {
    ASSERT_LT(asked, 5);
    search.tell(*next,
                {.state = TrialState::waiting, .value = 1, .step = next->until, .total_steps = kFullSteps});
  }
  EXPECT_EQ(search.trials()[0].state, TrialState::ended);
}

TEST(Search, AshaTrainsOneOfTwoTrialsInFull) {
  SearchOptions options = asha_with_27();
  options.count = 2;
  Search search(space_of_two(), options);
  auto reached = reached_rungs(search, [](int64_t trial) { return static_cast<double>(trial); });
  EXPECT_EQ(search.best()->state, TrialState::ended);
  EXPECT_EQ(reached[1], 1);
}

TEST(Search, AFailedTrialIsNoResult) {
  Search search(space_of_two(), {.count = 2, .lag = 0});
  search.tell(*search.next(), {.value = std::nan("")});
  EXPECT_EQ(search.trials()[0].state, TrialState::failed);
  EXPECT_EQ(search.best(), nullptr);
  search.tell(*search.next(), {.value = 0.5});
  EXPECT_EQ(search.best()->number, 1);
  EXPECT_FALSE(search.next());
}

TEST(Search, RefusesAStopRuleWithoutARung) {
  EXPECT_THROW(Search(space_of_two(), {.stop = StopRule::asha}), Error);
  EXPECT_THROW(Search(space_of_two(), {.stop = StopRule::asha, .first_rung = 2, .reduction = 1}), Error);
  EXPECT_THROW(Search(space_of_two(), {.lag = -1}), Error);
  EXPECT_THROW(Search(Space{}, {}), Error);
}

}  // namespace
}  // namespace lockstep::sweep
