#include <cmath>
#include <set>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/sweep/internal/normal.h"
#include "lockstep/sweep/internal/parzen.h"
#include "lockstep/sweep/sampler.h"

namespace lockstep::sweep {
namespace {

using testing::HasSubstr;

Space mixed_space() {
  Space space;
  space.add("r", "-1.0..3.0");
  space.add("l", "1e-4..0.1:log");
  space.add("i", "1..9");
  space.add("j", "1..64:log");
  space.add("c", "a,b,c");
  return space;
}

TEST(Space, ReadsRangesAndChoices) {
  Space space = mixed_space();
  space.add("momentum", "0..0.99:when=c=a|b");
  EXPECT_EQ(space.parameters()[0].kind, ParameterKind::real);
  EXPECT_TRUE(space.parameters()[1].log);
  EXPECT_EQ(space.parameters()[2].kind, ParameterKind::integer);
  EXPECT_EQ(space.parameters()[4].choices, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_NO_THROW(Space().add("ratio", "16:9"));
  space.add("d", "two words, 10:20:a ,3");
  EXPECT_EQ(space.parameters()[6].choices, (std::vector<std::string>{"two words", "10:20:a", "3"}));
  EXPECT_TRUE(space.counts(5, {0, 0.1, 1, 1, 1, kAbsent}));
  EXPECT_FALSE(space.counts(5, {0, 0.1, 1, 1, 2, kAbsent}));
  EXPECT_EQ(Space::from_json(space.to_json()).to_json(), space.to_json());
}

TEST(Space, RefusesWhatCannotBeSearched) {
  for (const char* text : {"3..1", "0..1:log", "a..b", "1..inf", "a,a", "1..2:when=x=y", "1..2:when=c=z", "",
                           "a,,b", "1..9007199254740993", "1..5:2", "1-5", "1:5", "0.1:0.2:1", "a, ,b"}) {
    Space space;
    space.add("c", "p,q");
    try {
      space.add("x", text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_option);
      EXPECT_THAT(error.message(), HasSubstr("\"x\""));
    }
  }
}

TEST(Space, ItsTextReadsBackAsTheSameParameter) {
  for (const char* text : {"1.0..5.0", "1..5", "1.0..64.0:log", "-2.0..0.5", "0.1..3", "a,b,c"}) {
    Space space, again;
    space.add("x", text);
    again.add("x", text_of(space.parameters()[0]));
    EXPECT_EQ(again.to_json(), space.to_json()) << text;
    EXPECT_EQ(again.parameters()[0].kind, space.parameters()[0].kind) << text;
  }
}

TEST(Space, JsonHasNumbersWhereAllValuesAreNumbers) {
  Space space;
  for (const auto& [name, text] : {std::pair{"rate", "0.001..0.1:log"}, std::pair{"size", "16,32"},
                                   std::pair{"limit", "1,inf"}, std::pair{"cut", "0.5,none"}})
    space.add(name, text);
  const Assignment values{{"rate", "0.0015227837876909728"}, {"size", "32"}, {"limit", "1"}, {"cut", "0.5"}};
  EXPECT_EQ(space.json_of(values).dump(),
            R"({"rate":0.0015227837876909728,"size":32,"limit":"1","cut":"0.5"})");
  EXPECT_EQ(space.json_of({{"rate", "damaged"}, {"other", "1"}}).dump(), R"({"rate":"damaged","other":"1"})");
  EXPECT_EQ(space.json_of({{"rate", "inf"}}).dump(), R"({"rate":"inf"})");
}

TEST(Space, JsonKeepsTheWordsOfAList) {
  for (const char* word : {"007", "1e-3", "-0", "+1", "1.50", "9007199254740993", "1e400"}) {
    Space space;
    space.add("x", std::string(word) + ",10");
    EXPECT_EQ(space.json_of({{"x", word}}), Json({{"x", word}})) << word;
    EXPECT_EQ(space.json_of({{"x", "10"}}), Json({{"x", "10"}})) << word;
  }
  for (const char* word : {"0", "-7", "0.001", "16.0", "9007199254740992"}) {
    Space space;
    space.add("x", std::string(word) + ",10");
    EXPECT_EQ(space.json_of({{"x", word}}).dump(), "{\"x\":" + std::string(word) + "}");
  }
}

TEST(Space, RefusesBoundsThatAreNoneAndConditionsWithoutContent) {
  EXPECT_THROW(Space().add("x", "1e-300..1e10:log"), Error);
  EXPECT_THROW(Space().add({.name = "x", .kind = ParameterKind::integer, .low = 0.5, .high = 2}), Error);
  for (const char* when : {R"({"": ["p"]})", R"({"c": []})"}) {
    const std::string text =
        R"({"c": ["p", "q"], "x": {"range": [1, 2], "when": )" + std::string(when) + "}}";
    EXPECT_THROW(Space::from_json(parse_json(text)), Error) << when;
  }
}

TEST(Space, ADashIsNoRange) {
  for (const char* text : {"0.001-0.1", "1-5", "1e-4-0.1", "-1--0.5"}) {
    try {
      Space().add("r", text);
      ADD_FAILURE() << text << " can be searched";
    } catch (const Error& error) {
      EXPECT_THAT(error.hint(), HasSubstr("write a range, 0.001..0.1"));
    }
  }
  Space space;
  space.add("one", "1e-4");
  space.add("below", "-1");
  space.add("names", "bf16-mixed");
  space.add("list", "1-5,2-6");
  EXPECT_EQ(space.size(), 4u);
}

TEST(Samplers, StayInTheSpaceAndRepeat) {
  Space space = mixed_space();
  space.add("w", "0.25..0.75:when=c=a|b");
  for (const SearchKind kind :
       {SearchKind::grid, SearchKind::random, SearchKind::sobol, SearchKind::tpe, SearchKind::gp}) {
    const auto a = make_sampler(space, {.kind = kind, .seed = 7});
    const auto b = make_sampler(space, {.kind = kind, .seed = 7});
    std::set<bool> counts;
    for (int64_t trial = 40; trial >= 0; --trial) {
      const Point point = a->suggest(trial, {});
      EXPECT_THAT(b->suggest(trial, {}), testing::Pointwise(testing::NanSensitiveDoubleEq(), point));
      for (size_t i = 0; i < space.size(); ++i) {
        EXPECT_EQ(space.counts(i, point), !std::isnan(point[i]));
        if (std::isnan(point[i])) continue;
        const Parameter& parameter = space.parameters()[i];
        EXPECT_GE(point[i], parameter.is_number() ? parameter.low : 0);
        EXPECT_LE(point[i], parameter.is_number() ? parameter.high : 2);
      }
      counts.insert(space.counts(5, point));
    }
    EXPECT_EQ(counts.size(), 2u) << "it counts for some trials";
  }
}

// Each eighth of the range once in every eight aligned numbers. Boost leaves out the first one, zero.
TEST(Samplers, SobolNumbersAreSpread) {
  Space space;
  space.add("x", "0.0..1.0");
  space.add("y", "0.0..1.0");
  const auto sampler = make_sobol_sampler(space, 3);
  for (size_t i = 0; i < 2; ++i) {
    std::set<int> parts;
    for (int64_t trial = 7; trial < 15; ++trial)
      parts.insert(static_cast<int>(8 * sampler->suggest(trial, {})[i]));
    EXPECT_EQ(parts.size(), 8u);
  }
}

TEST(Samplers, AGridHasEachPointOnce) {
  Space space;
  space.add("c", "a,b");
  space.add("x", "1..3");
  space.add("y", "0.01..1.0:log:when=c=b");
  const auto sampler = make_grid_sampler(space, 3);
  ASSERT_EQ(sampler->most_trials(), 3 + 9);
  std::set<std::vector<std::string>> points;
  for (int64_t trial = 0; trial < 12; ++trial) {
    std::vector<std::string> words;
    for (const auto& [name, value] : space.assignment(sampler->suggest(trial, {})))
      words.push_back(name + value);
    points.insert(words);
  }
  EXPECT_EQ(points.size(), 12u);
}

// Values of Optuna 5.0.0: _ParzenEstimator(...).log_pdf with the defaults of TPESampler.
TEST(Parzen, HasOptunasDensities) {
  const std::vector<std::vector<double>> points{
      {-0.5, 2e-4, 1, 1, 0}, {0.25, 1e-3, 5, 8, 1}, {2.9, 0.09, 9, 64, 2}, {3.0, 1e-4, 4, 33, 0}};
  const std::vector<std::pair<int, std::vector<double>>> cases{
      {0, {-8.263852129493031, -10.144468423791935, -12.644405881306342, -11.850528255912794}},
      {1, {-7.396790683318661, -10.320086142974894, -13.141717728435482, -11.617060441696973}},
      {4, {-5.536876614020347, -10.175438047482904, -12.745578075966991, -9.49788419536895}}};
  for (const auto& [count, expected] : cases) {
    std::vector<std::vector<double>> observations;
    for (int k = 0; k < count; ++k)
      observations.push_back({-1 + 4 * ((k * 7) % 11) / 11.0, 1e-4 * std::pow(10, 3 * ((k * 5) % 13) / 13.0),
                              1.0 + (k * 4) % 9, 1.0 + (k * 17) % 64, static_cast<double>(k % 3)});
    const auto densities = Parzen(mixed_space().parameters(), observations).log_densities(points);
    for (size_t i = 0; i < points.size(); ++i)
      EXPECT_NEAR(densities[i], expected[i], 1e-9) << count << " " << i;
  }
}

// With more than 25 observations the older ones count less. None are equal: Optuna does not say which of two
// equal ones is first.
TEST(Parzen, HasOptunasWeights) {
  Space space;
  space.add("r", "-1.0..3.0");
  space.add("l", "1e-4..0.1:log");
  space.add("c", "a,b,c");
  std::vector<std::vector<double>> observations;
  for (int k = 0; k < 40; ++k)
    observations.push_back({-1 + 4 * ((k * 7) % 41) / 41.0, 1e-4 * std::pow(10, 3 * ((k * 5) % 43) / 43.0),
                            static_cast<double>(k % 3)});
  const auto densities =
      Parzen(space.parameters(), observations)
          .log_densities({{-0.5, 2e-4, 0}, {0.25, 1e-3, 1}, {2.9, 0.09, 2}, {3.0, 1e-4, 0}});
  const std::vector<double> expected{-3.5477047299430287, -2.131636705275083, -5.492632233853609,
                                     -7.905439206292166};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(densities[i], expected[i], 1e-9) << i;
}

TEST(Parzen, SamplesFollowItsDensity) {
  Space space;
  space.add("x", "0.0..1.0");
  const Parzen parzen(space.parameters(), {{0.2}, {0.25}, {0.9}});
  Random random(1);
  constexpr int kSamples = 20'000, kParts = 10;
  std::vector<double> counts(kParts);
  for (int k = 0; k < kSamples; ++k)
    counts[std::min<size_t>(kParts - 1, static_cast<size_t>(kParts * parzen.sample(random)[0]))] += 1;
  for (int part = 0; part < kParts; ++part) {
    double mass = 0;
    for (int k = 0; k < 100; ++k)
      mass += std::exp(parzen.log_densities({{(part + (k + 0.5) / 100) / kParts}})[0]) / 1000;
    EXPECT_NEAR(counts[static_cast<size_t>(part)] / kSamples, mass, 0.015) << part;
  }
}

TEST(Normal, ItsTailsAreRight) {
  EXPECT_NEAR(log_normal_cdf(-30), -454.32124395634325, 1e-9);
  EXPECT_NEAR(log_normal_mass(-1, 1), std::log(0.6826894921370859), 1e-12);
  EXPECT_NEAR(log_normal_mass(40, 41), -804.608442013754, 1e-6);
  EXPECT_NEAR(normal_between(-1, 2, 0.5), 0.1712, 1e-4);
}

TEST(Tpe, FindsTheBottomOfABowl) {
  Space space;
  space.add("x", "-5.0..5.0");
  space.add("y", "-5.0..5.0");
  const auto sampler = make_tpe_sampler(space, 1);
  std::vector<Observation> observations;
  double best = 1e9;
  for (int64_t trial = 0; trial < 100; ++trial) {
    const Point point = sampler->suggest(trial, observations);
    const double loss = std::pow(point[0] - 2, 2) + std::pow(point[1] + 1, 2);
    best = std::min(best, loss);
    observations.push_back({trial, point, Observation::State::ended, loss, 1});
  }
  EXPECT_LT(best, 0.1);
}

// It keeps trials sorted. Some are missing later, as those that fail, and one has another point than before.
TEST(Tpe, ASuggestionDependsOnlyOnWhatItIsShown) {
  Space space = mixed_space();
  space.add("w", "0.0..1.0:when=c=a|b");
  const auto used = make_tpe_sampler(space, 1);
  std::vector<Observation> observations;
  for (int64_t trial = 0; trial < 60; ++trial) {
    const Point point = used->suggest(trial, observations);
    const auto state = trial % 7 == 3 ? Observation::State::pending : Observation::State::ended;
    observations.push_back({trial, point, state, std::round(10 * point[0]) + point[2], 1});
    if (trial == 30) observations.erase(observations.begin() + 12);
    if (trial == 45) observations[20].point = observations[21].point;
    const Point expected = make_tpe_sampler(space, 1)->suggest(trial + 1, observations);
    EXPECT_THAT(used->suggest(trial + 1, observations),
                testing::Pointwise(testing::NanSensitiveDoubleEq(), expected));
  }
}

}  // namespace
}  // namespace lockstep::sweep
