#include "lockstep/sweep/ask_tell.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/base/seed.h"
#include "lockstep/sweep/run.h"

namespace lockstep::sweep {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kFullLength = 80;

Space rate_and_kind() {
  Space space;
  space.add("rate", "0.001..1.0:log");
  space.add("kind", "plain,other");
  space.add("momentum", "0.1..0.9:when=kind=other");
  return space;
}

double loss_of(const Question& question) {
  return std::pow(std::log10(question.number("rate")) + 1, 2) + (question.text("kind") == "plain" ? 0.5 : 0);
}

// Answers in any order what was asked, at most `places` at a time. The results by trial.
std::vector<double> results_of(const SearchOptions& options, size_t places, uint64_t seed) {
  AskTell search(rate_and_kind(), options);
  Random random(seed);
  std::vector<Question> open;
  while (true) {
    while (open.size() < places) {
      auto question = search.ask();
      if (!question) break;
      open.push_back(std::move(*question));
    }
    if (open.empty()) break;
    const auto one = open.begin() + static_cast<std::ptrdiff_t>(random.below(open.size()));
    EXPECT_EQ(one->until > 0, options.stop != StopRule::none);
    search.tell(*one, loss_of(*one));
    open.erase(one);
  }
  EXPECT_TRUE(search.is_over());
  std::vector<double> results;
  for (const Trial& trial : search.trials()) results.push_back(trial.value);
  return results;
}

TEST(AskTell, OneTableHoweverManyAreAskedForAtOnce) {
  for (const StopRule stop : {StopRule::none, StopRule::median, StopRule::asha}) {
    const SearchOptions options{.sampler = {.kind = SearchKind::tpe, .seed = 3},
                                .count = 30,
                                .lag = 4,
                                .maximize = false,
                                .stop = stop,
                                .first_rung = 10,
                                .total_steps = stop == StopRule::none ? 0 : kFullLength};
    const std::vector<double> one = results_of(options, 1, 1);
    ASSERT_EQ(one.size(), 30u);
    EXPECT_EQ(results_of(options, 2, 2), one);
    EXPECT_EQ(results_of(options, 8, 3), one);
    EXPECT_LT(*std::min_element(one.begin(), one.end()), 0.05);
  }
}

TEST(AskTell, FreeTellsAtOnce) {
  AskTell search(rate_and_kind(), {.count = 4, .lag = 1, .free = true});
  const Question first = *search.ask(), second = *search.ask();
  EXPECT_FALSE(search.ask());
  search.tell(second, 1);
  EXPECT_EQ(search.trials()[1].value, 1);
  EXPECT_EQ(search.ask()->trial, 2);
  search.tell(first, 0.5);
  EXPECT_EQ(search.best()->number, 1);
}

TEST(AskTell, RefusesWhatWasNotAsked) {
  AskTell search(rate_and_kind(), {.count = 4, .lag = 1});
  const Question first = *search.ask(), second = *search.ask();
  search.tell(second, 1);
  EXPECT_THAT([&] { search.tell(second, 1); }, ThrowsMessage<Error>(HasSubstr("trial 1 was told before")));
  EXPECT_THAT([&] { search.tell({.trial = 3}, 1); },
              ThrowsMessage<Error>(HasSubstr("trial 3 was not asked")));
  EXPECT_THAT([&] { return first.number("rte"); }, ThrowsMessage<Error>(HasSubstr("no parameter \"rte\"")));
  for (const TrialState state : {TrialState::running, TrialState::early})
    EXPECT_THAT([&] { search.tell(first, Outcome{.state = state, .value = 1}); },
                ThrowsMessage<Error>(HasSubstr("trial 0 cannot be told as")));
  search.tell(first, std::nan(""));
  EXPECT_EQ(search.trials()[0].state, TrialState::failed);
  EXPECT_EQ(search.trials()[1].value, 1);  // told in turn
}

TEST(AskTell, AChoiceThatIsNoNumberIsText) {
  const Question question{.parameters = {{"k", "b"}, {"n", "2"}}};
  EXPECT_EQ(question.number("n"), 2);
  try {
    question.number("k");
    ADD_FAILURE() << "b is a number";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "parameter \"k\" is \"b\", which is no number");
    EXPECT_EQ(error.hint(), "text(\"k\") returns it as text");
  }
}

struct SearchedInput {
  int64_t n = 1;
  double rate = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("n", self.n, "", between(1, 10));
    field("rate", self.rate, "");
  };
};

struct SearchedOutput {
  double accuracy = 0;
  int64_t steps = 0;
  std::string word{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("accuracy", self.accuracy, "");
    field("steps", self.steps, "");
    field("word", self.word, "");
  };
};

TEST(SweepRun, RefusesValuesThatTheInputCannotHave) {
  const auto check = [](const char* name, const char* text) {
    Space space;
    space.add(name, text);
    run_detail::check<SearchedInput, SearchedOutput>(space, {}, {});
  };
  check("n", "1..3");
  check("n", "1,7");
  check("rate", "1..3");
  check("rate", "0.1..0.5:log");
  for (const char* text : {"1.5..3.5", "1.0..3.0"})
    EXPECT_THAT([&] { check("n", text); }, ThrowsMessage<Error>(HasSubstr("it is a whole number")));
  EXPECT_THAT([&] { check("n", "5..11"); }, ThrowsMessage<Error>(HasSubstr("\"11\"")));
  EXPECT_THAT([&] { check("rate", "0.1,fast"); }, ThrowsMessage<Error>(HasSubstr("\"fast\"")));
}

TEST(SweepRun, AnUnknownMetricIsAnsweredWithTheNumbers) {
  try {
    number_in(SearchedOutput{}, "word");
    ADD_FAILURE() << "a text is a number";
  } catch (const Error& error) {
    EXPECT_EQ(error.hint(), "it has accuracy, steps");
  }
}

}  // namespace
}  // namespace lockstep::sweep
