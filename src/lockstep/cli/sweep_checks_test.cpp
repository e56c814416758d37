#include "lockstep/cli/sweep_checks.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/cli/sweep_inputs.h"
#include "lockstep/cli/verbs.h"

namespace lockstep::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Asked {
  std::vector<std::string> command{"train", "data"};
  std::string searched = "learning-rate";
  std::string values = "0.001..0.1:log";
  std::string metric{};
  sweep::StopRule stop_rule = sweep::StopRule::none;
  std::vector<std::string> as_options{};
};

std::string refusal_of(const Asked& asked) {
  sweep::SweepSpec spec{.command = asked.command};
  spec.space.add("optimizer", "sgdm,adam");
  spec.space.add(asked.searched, asked.values);
  spec.options.metric = asked.metric;
  spec.options.stop_rule = asked.stop_rule;
  spec.options.first_rung = 30;
  try {
    check_sweep(spec);
    check_new_sweep(spec, asked.as_options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SweepChecks, RefuseAMetricThatTrainDoesNotHave) {
  for (const char* metric : {"", "best_accuracy", "accuracy", "loss", "result"})
    EXPECT_EQ(refusal_of({.metric = metric}), "");
  EXPECT_THAT(refusal_of({.metric = "acuracy"}), HasSubstr("did you mean accuracy?"));
  EXPECT_THAT(refusal_of({.metric = "zzz"}), HasSubstr("use best_accuracy, accuracy, loss or test_accuracy"));
  EXPECT_EQ(refusal_of({.command = {"./simulate"}, .metric = "zzz"}), "");
}

TEST(SweepChecks, RefuseAParameterWithTheNameOfAColumn) {
  for (const char* name :
       {"trial", "state", "result", "steps", "total_steps", "time", "seconds", "note", "error"})
    EXPECT_THAT(
        refusal_of({.command = {"./simulate"}, .searched = name, .values = "1..5", .metric = "speed"}),
        HasSubstr("has the name of a column"))
        << name;
  EXPECT_THAT(
      refusal_of({.command = {"./simulate"}, .searched = "speed", .values = "1..5", .metric = "speed"}),
      HasSubstr("has the name of the sweep's metric"));
  EXPECT_EQ(
      refusal_of({.command = {"./simulate"}, .searched = "my-speed", .values = "1..5", .metric = "speed"}),
      "");
}

TEST(SweepChecks, RefuseAMisspelledOptionOfTheSweep) {
  const auto refusal = [](const char* searched, const char* values, const char* word) {
    return refusal_of(
        {.command = {"./simulate", word}, .searched = searched, .values = values, .as_options = {searched}});
  };
  EXPECT_THAT(refusal("cuont", "30", "a"), HasSubstr("the sweep has no option --cuont"));
  EXPECT_EQ(refusal("cuont", "30", "{cuont}"), "");
  EXPECT_EQ(refusal("cuont", "30,40", "a"), "");
  EXPECT_EQ(refusal("x", "30", "a"), "");
  EXPECT_EQ(refusal("grid", "64", "a"), "") << "a part of another name is none";
  for (const char* name : {"cuont", "seed"})
    EXPECT_EQ(refusal_of({.command = {"./simulate"}, .searched = name, .values = "7"}), "") << "by --param";
  EXPECT_THAT(refusal_of({.searched = "retrys", .values = "5"}), HasSubstr("train has no option --retrys"));
}

TEST(SweepChecks, RefuseATestThatTrialsDoNotMake) {
  EXPECT_THAT(refusal_of({.metric = "test_accuracy"}), HasSubstr("needs test data"));
  const std::vector<std::string> tested{"train", "data", "--test", "more"};
  EXPECT_EQ(refusal_of({.command = tested, .metric = "test_accuracy"}), "");
  EXPECT_EQ(refusal_of({.searched = "test", .values = "more,others", .metric = "test_accuracy"}), "");
  EXPECT_THAT(refusal_of({.command = tested, .metric = "test_accuracy", .stop_rule = sweep::StopRule::asha}),
              HasSubstr("--metric test_accuracy cannot be used with --stop-rule asha"));
}

TEST(SweepChecks, RefuseFoldsThatNoTrialIs) {
  const std::vector<std::string> folds{"train", "data", "--validation-folds", "4"};
  EXPECT_THAT(refusal_of({.command = folds}), HasSubstr("search the folds: --param fold=1..4"));
  EXPECT_EQ(refusal_of({.command = folds, .searched = "fold", .values = "1..4"}), "");
  EXPECT_EQ(refusal_of({.command = {"train", "data", "--validation-folds=4", "--fold=2"}}), "");
}

TEST(SweepChecks, RefuseRealNumbersForWholeOnes) {
  for (const char* values : {"16..1e3", "5.0..20"})
    EXPECT_THAT(refusal_of({.searched = "warmup-steps", .values = values}), HasSubstr("as in 16..1000"));
  EXPECT_EQ(refusal_of({.searched = "warmup-steps", .values = "16..1000"}), "");
}

TEST(SweepChecks, KnowWhatDependsOnWorkers) {
  const auto depends = [](std::vector<std::string> command, const std::string& searched) {
    sweep::SweepSpec spec{.command = std::move(command)};
    spec.space.add(searched, searched == "exchange" ? "tree,average" : "0.1,0.2");
    return depends_on_workers(spec);
  };
  EXPECT_FALSE(depends({"train", "data"}, "learning-rate"));
  EXPECT_FALSE(depends({"./simulate"}, "learning-rate"));
  EXPECT_TRUE(depends({"train", "data"}, "exchange"));
  EXPECT_TRUE(depends({"train", "data", "--exchange=average"}, "learning-rate"));
  EXPECT_TRUE(depends({"train", "data", "--scale-with-workers", "batch"}, "learning-rate"));
  EXPECT_TRUE(depends({"train", "data", "--sample-order", "distributed-sampler"}, "learning-rate"));
}

// Not bf16 and fp16: a trial is one rank, so they round the same sum for any number of workers.
TEST(SweepChecks, MarkWhatDependsOnWorkersOrTheClock) {
  const auto reasons = [](std::vector<std::string> command, const std::string& metric = "",
                          const std::string& exchanges = "") {
    sweep::SweepSpec spec{.command = std::move(command)};
    spec.space.add("learning-rate", "0.1,0.2");
    if (!exchanges.empty()) spec.space.add("exchange", exchanges);
    spec.options.metric = metric;
    return reasons_for_another_table(spec);
  };
  const auto of_exchange = [&](std::string exchange) {
    return reasons({"train", "data", "--exchange", std::move(exchange)});
  };
  for (const char* same : {"tree", "bf16", "fp16"}) EXPECT_THAT(of_exchange(same), ElementsAre()) << same;
  EXPECT_THAT(of_exchange("average"), ElementsAre("--exchange average without --shards"));
  EXPECT_THAT(reasons({"train", "data", "--exchange=average", "--shards=4"}), ElementsAre());
  EXPECT_THAT(of_exchange("powersgd"), ElementsAre("--exchange powersgd"));
  EXPECT_THAT(reasons({"train", "data"}, "", "tree,bf16"), ElementsAre());
  EXPECT_THAT(reasons({"train", "data"}, "", "tree,powersgd"), ElementsAre("--exchange powersgd"));
  EXPECT_THAT(reasons({"train", "data", "--scale-with-workers", "batch"}),
              ElementsAre("--scale-with-workers"));
  EXPECT_THAT(reasons({"train", "data", "--sample-order", "distributed-sampler"}),
              ElementsAre("--sample-order distributed-sampler"));
  for (const char* metric : {"seconds", "wall_time", "Latency-ms", "images_per_second", "throughput"})
    EXPECT_THAT(reasons({"./simulate"}, metric), ElementsAre("--metric " + std::string(metric)));
  for (const char* metric : {"", "loss", "sentiment", "msle", "timestep_error"})
    EXPECT_THAT(reasons({"./simulate"}, metric), ElementsAre()) << metric;

  sweep::SweepSpec spec{.command = {"train", "data", "--exchange", "powersgd"}};
  spec.space.add("learning-rate", "0.1,0.2");
  EXPECT_FALSE(may_move_workers(spec));
  spec.command = {"train", "data", "--exchange", "bf16"};
  EXPECT_TRUE(may_move_workers(spec));
  spec.not_reproducible = {"--free", "--max-time"};
  EXPECT_EQ(not_reproducible_text(spec),
            "another sweep may give another table, because of --free and --max-time");
}

TEST(SweepChecks, RefuseARungBeforeTheFirstValidation) {
  constexpr auto kAsha = sweep::StopRule::asha;
  EXPECT_EQ(refusal_of({.stop_rule = kAsha}), "");
  EXPECT_EQ(refusal_of({.command = {"train", "data", "--validate-every", "30"}, .stop_rule = kAsha}), "");
  EXPECT_EQ(refusal_of({.command = {"train", "data", "--validate-every=0"}, .stop_rule = kAsha}), "");
  EXPECT_EQ(refusal_of({.command = {"train", "data", "--validate-every=31"}}), "");
  EXPECT_THAT(refusal_of({.command = {"train", "data", "--validate-every=31"}, .stop_rule = kAsha}),
              HasSubstr("--validate-every 31 is after the first rung, at step 30"));
  EXPECT_THAT(refusal_of({.searched = "validate-every", .values = "10..20", .stop_rule = kAsha}),
              HasSubstr("cannot be searched with --stop-rule asha"));
}

TEST(SweepChecks, RefuseWhatHasNoEffect) {
  for (const char* name : {"workers", "output", "pause-after-step"})
    EXPECT_THAT(refusal_of({.searched = name, .values = "1,2"}),
                HasSubstr("parameter \"" + std::string(name) + "\" cannot be searched"));
  EXPECT_THAT(refusal_of({.command = {"./simulate"}, .stop_rule = sweep::StopRule::median}),
              HasSubstr("--stop-rule median is only for train"));
  const std::string sometimes = "0.5..0.9:when=optimizer=sgdm";
  EXPECT_THAT(
      refusal_of({.command = {"./simulate", "--m={momentum}"}, .searched = "momentum", .values = sometimes}),
      HasSubstr("parameter \"momentum\" counts only for some values of \"optimizer\""));
  EXPECT_EQ(
      refusal_of({.command = {"./simulate", "{parameters}"}, .searched = "momentum", .values = sometimes}),
      "");
  EXPECT_EQ(
      refusal_of({.command = {"./simulate", "{optimizer}"}, .searched = "momentum", .values = sometimes}),
      "");
}

TEST(SweepChecks, RefuseMemoryWhereTrialsAreNoThreads) {
  const auto refusal = [](std::vector<std::string> command, const sweep::SweepOptions& options) {
    sweep::SweepSpec spec{.options = options, .command = std::move(command)};
    spec.options.memory = "4G";
    check_sweep(spec);  // may go on
    try {
      check_new_sweep(spec);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal({"train", "data"}, {}), "");
  const auto refused = HasSubstr("--memory is only for trials on threads of one process");
  EXPECT_THAT(refusal({"train", "data"}, {.trials_as = sweep::TrialsAs::processes}), refused);
  EXPECT_THAT(refusal({"train", "data"}, {.profile = "local"}), refused);
  EXPECT_THAT(refusal({"./simulate"}, {}), refused);
}

TEST(SweepChecks, RefuseASearchedSizeThatIsNone) {
  const auto refusal = [](const char* option, const char* values) {
    return refusal_of({.searched = option, .values = values});
  };
  EXPECT_EQ(refusal("image-size", "auto,28x28"), "");
  EXPECT_EQ(refusal("resize-to", "40x40,28x28"), "");
  EXPECT_THAT(refusal("image-size", "28x28,32"), HasSubstr("--image-size cannot be \"32\""));
  EXPECT_THAT(refusal("image-size", "28..32"), HasSubstr("--image-size cannot be \"28\""));
  EXPECT_THAT(refusal("resize-to", "40,28x28"), HasSubstr("--resize-to cannot be \"40\""));
}

TEST(SweepChecks, RefuseACommandThatTrainRefuses) {
  const auto refusal = [](std::vector<std::string> words) {
    return refusal_of({.command = std::move(words)});
  };
  EXPECT_EQ(refusal({"train", "data", "--max-epochs", "1", "--momentum=0.5"}), "");
  EXPECT_THAT(refusal({"train", "data", "--max-epoch", "1"}), HasSubstr("did you mean --max-epochs?"));
  EXPECT_THAT(refusal({"train", "data", "--max-epochs", "many"}), HasSubstr("max-epochs"));
  EXPECT_THAT(refusal({"train", "data", "--weights", ""}), HasSubstr("option --weights is empty"));
  EXPECT_EQ(call_of_train({.command = {"train", "data", "--weights", ""}}).text_of("weights"), "")
      << "as sweeps of earlier versions may have it";
  EXPECT_THAT(refusal({"train"}), HasSubstr("lockstep train needs a FOLDER"));
  EXPECT_THAT(refusal({"train", "--", "data"}), HasSubstr("cannot have -- after train"));
  EXPECT_EQ(refusal({"./simulate", "--", "data"}), "");
  EXPECT_THAT(refusal({"train", "data", "--config", "missing.json"}), HasSubstr("missing.json"));
  EXPECT_THAT(refusal({"train", "data", "--learning-rate=1"}),
              HasSubstr("--learning-rate is both searched and given after --"));
}

// A file of options counts as if they stood behind train.
TEST(SweepChecks, LookIntoTheFileOfConfig) {
  const std::string file = testing::TempDir() + "lockstep-sweep-config.json";
  const auto refusal = [&](const char* options, Asked asked) {
    std::ofstream(file) << options;
    asked.command = {"train", "data", "--config", file};
    return refusal_of(asked);
  };
  constexpr auto kAsha = sweep::StopRule::asha;
  EXPECT_EQ(refusal(R"({"validate-every": 30})", {.stop_rule = kAsha}), "");
  EXPECT_THAT(refusal(R"({"validate-every": 31})", {.stop_rule = kAsha}),
              HasSubstr("--validate-every 31 is after the first rung"));
  EXPECT_EQ(refusal(R"({"test": "more"})", {.metric = "test_accuracy"}), "");
  EXPECT_THAT(refusal(R"({"pause-after-step": 4})", {}), HasSubstr("cannot have pause-after-step"));
  EXPECT_THAT(refusal(R"({"resume": true})", {}), HasSubstr("cannot have resume"));
  EXPECT_EQ(refusal(R"({"resume": false, "workers": 2})", {}), "");

  const auto reasons = [&](const char* options, sweep::SweepSpec spec) {
    std::ofstream(file) << options;
    if (spec.command.empty()) spec.command = {"train", "data", "--config", file};
    return reasons_for_another_table(spec);
  };
  EXPECT_THAT(reasons("{}", {}), ElementsAre());
  EXPECT_THAT(reasons(R"({"max-time": 9, "precision": "auto"})", {}),
              ElementsAre("--max-time", "--precision auto"));
  EXPECT_THAT(reasons("{}", {.options = {.free = true}}), ElementsAre("--free"));
  EXPECT_THAT(reasons("{}", {.command = {"./simulate", "--max-time", "9"}}), ElementsAre());
  sweep::SweepSpec searched;
  searched.space.add("precision", "32-true,auto");
  searched.space.add("max-time", "5..10");
  EXPECT_THAT(reasons("{}", searched), ElementsAre("--max-time", "--precision auto"));
  std::filesystem::remove(file);
}

TEST(SweepInputs, RefuseWhatIsNotThere) {
  const auto refusal = [](sweep::SweepSpec spec) -> std::string {
    try {
      check_inputs(spec, "/bin/false", /*is_new=*/false);  // which has no list of networks
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string here = testing::TempDir();
  for (const char* program : {"sh", "/bin/sh", "./{name}"}) EXPECT_EQ(refusal({.command = {program}}), "");
  EXPECT_THAT(refusal({.command = {"./nothere"}}), HasSubstr("there is no program \"./nothere\""));
  EXPECT_THAT(refusal({.command = {"no-program-has-this-name"}}), HasSubstr("searched for in PATH"));
  EXPECT_THAT(refusal({.command = {here}}), HasSubstr("is no program that can be run"));
  EXPECT_EQ(refusal({.command = {"./sh"}, .working_folder = "/bin"}), "");
  EXPECT_EQ(refusal({.command = {"train", here}}), "");
  EXPECT_EQ(refusal({.command = {"train", "s3://bucket/photos"}}), "");
  EXPECT_EQ(refusal({.command = {"echo", "photoss"}}), "");
  EXPECT_THAT(refusal({.command = {"train", here + "/photoss"}}), HasSubstr("photoss\": No such file"));
  EXPECT_THAT(refusal({.command = {"train", here + "/photoss.tar.gz/train"}}), HasSubstr("No such file"));
  EXPECT_THAT(refusal({.command = {"train", here, "--test", "testss"}}),
              HasSubstr("\"testss\": No such file"));
  EXPECT_THAT(refusal({.command = {"train", "photoss"}, .working_folder = here}), HasSubstr(here));
  sweep::SweepSpec searched{.command = {"train", here, "--network", "lenet"}};
  searched.space.add("validation", "/,gone");
  EXPECT_THAT(refusal(searched), HasSubstr("\"gone\": No such file"));
}

TEST(SweepChecks, OptionsHaveDashes) {
  for (const FieldInfo& field : sweep_fields()) {
    EXPECT_THAT(field.name, testing::Not(HasSubstr("_")));
    EXPECT_THAT(field.alias(), testing::Not(HasSubstr("_"))) << field.name;
  }
}

TEST(SweepChecks, CountThePointsOfASpace) {
  const auto points = [](const std::vector<std::string>& all) {
    sweep::Space space;
    for (size_t i = 0; i < all.size(); ++i) space.add("p" + std::to_string(i), all[i]);
    return points_of(space);
  };
  EXPECT_EQ(points({"0.1"}), 1);
  EXPECT_EQ(points({"a,b,c", "1..4"}), 12);
  EXPECT_EQ(points({"a,b,c", "0.5..4"}), std::nullopt);
  EXPECT_EQ(points({"1..1000", "1..1000", "1..2"}), std::nullopt);
}

}  // namespace
}  // namespace lockstep::cli
