// Every number that a command takes has a least and a greatest value. The options are those of the described
// structs, so a new one is tested too.
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/describe.h"
#include "lockstep/base/error.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/engine.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/nn/builtin.h"
#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/run/fit.h"

namespace lockstep::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kMostWhole = "9223372036854775807";

bool is_number(const FieldInfo& field) {
  return field.type == "integer" || field.type == "number" || field.type == "integers" ||
         field.type.starts_with("N|auto");
}

void for_each_number(const std::function<void(const Verb& verb, const FieldInfo& field)>& work) {
  for (const Verb& verb : builtin_verbs()) {
    for (const FieldInfo& field : verb.fields()) {
      if (is_number(field)) work(verb, field);
    }
  }
}

// Expects a greatest value of every whole number that is described.
struct HasLimits {
  template <class T>
  void operator()(const char* name, T&, const char*, FieldTraits traits = {}) const {
    if constexpr (std::is_same_v<T, int64_t>) {
      EXPECT_TRUE(std::isfinite(traits.high)) << name;
    }
  }
};

std::string plain(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.0f", value);
  return text.data();
}

struct Outcome {
  int status;
  std::string said;  ///< on standard error
};

Outcome run(const std::vector<std::string>& arguments) {
  std::FILE* const out = std::tmpfile();
  std::FILE* const error = std::tmpfile();
  Console console(out, error, 80);
  Outcome outcome{
      run_program(arguments, console, engine_commands([](const char*) -> const char* { return nullptr; })),
      ""};
  std::rewind(error);
  std::array<char, 4096> part{};
  for (size_t got = 0; (got = std::fread(part.data(), 1, part.size(), error)) > 0;)
    outcome.said.append(part.data(), got);
  std::fclose(out);
  std::fclose(error);
  return outcome;
}

std::vector<std::string> command(const Verb& verb, const std::string& option) {
  std::vector<std::string> words = split(verb.name, ' ');
  for (const std::string& word : split(verb.words, ' ')) {
    if (!word.empty() && !word.starts_with("[")) words.emplace_back("nowhere");
  }
  // What `lockstep run` starts comes last; `lockstep batch` may have nothing to start.
  const bool has_program = verb.starts_program && words.back() == "nowhere";
  words.insert(has_program ? words.end() - 1 : words.end(), option);
  return words;
}

// Two classes of four images.
class Limits : public testing::Test {
 protected:
  Limits() {
    for (const char* name : {"a/1", "a/2", "a/3", "a/4", "b/1", "b/2", "b/3", "b/4"}) {
      folder_.write("images/" + std::string(name) + ".pgm",
                    "P5\n8 8\n255\n" + std::string(64, name[0] == 'a' ? '\x20' : '\x7f'));
    }
  }
  std::string images() const { return (folder_.path() / "images").string(); }
  lockstep::test::TemporaryFolder folder_;
};

TEST_F(Limits, EveryNumberHasALeastAndAGreatest) {
  int count = 0;
  for_each_number([&](const Verb& verb, const FieldInfo& field) {
    ++count;
    EXPECT_TRUE(std::isfinite(field.traits.low) && std::isfinite(field.traits.high))
        << verb.name << " --" << field.name;
  });
  EXPECT_GT(count, 100);
  for (const nn::LayerType& type : nn::layer_types()) {
    for (const FieldInfo& field : type.options)
      EXPECT_TRUE(!is_number(field) || (std::isfinite(field.traits.low) && std::isfinite(field.traits.high)))
          << type.name << " " << field.name;
  }
  train::RunState state;
  train::RunState::describe(state, HasLimits());
}

TEST_F(Limits, WhatIsBeyondThemIsRefusedByEveryCommand) {
  for_each_number([&](const Verb& verb, const FieldInfo& field) {
    std::vector<std::string> values{"1e400",
                                    "-1e400",
                                    "nan",
                                    "inf",
                                    "-inf",
                                    plain(2 * field.traits.high + 2),
                                    plain(field.traits.low - 2)};
    for (const char* value : {kMostWhole, "4611686018427387904"}) {
      if (std::stod(value) > field.traits.high) values.emplace_back(value);
    }
    for (const std::string& value : values) {
      const Outcome outcome = run(command(verb, "--" + field.name + "=" + value));
      EXPECT_EQ(outcome.status, 2) << verb.name << " --" << field.name << " " << value << "\n"
                                   << outcome.said;
      EXPECT_THAT(outcome.said, AllOf(StartsWith("lockstep: option --" + field.name + " cannot be \"" +
                                                 value + "\": it must be a"),
                                      HasSubstr("\n  hint: ")));
    }
  });
}

TEST_F(Limits, WhatIsWithinThemMakesAPlan) {
  for (const Verb& verb : builtin_verbs()) {
    if (verb.name != "plan") continue;
    for (const FieldInfo& field : train_fields()) {
      if (!is_number(field)) continue;
      for (const std::string& value :
           {plain(std::ceil(field.traits.low)), std::string("0"), plain(field.traits.high),
            std::string(kMostWhole), std::string("4611686018427387904")}) {
        if (std::stod(value) > field.traits.high || std::stod(value) < field.traits.low) continue;
        const std::string number = std::stod(value) >= 0x1p63 ? kMostWhole : value;
        const Outcome outcome =
            run({"plan", images(), "--network=mlp", "--execution=cpu", "--" + field.name + "=" + number});
        if (outcome.status == 0) continue;
        EXPECT_THAT(outcome.said, StartsWith("lockstep: ")) << "--" << field.name << " " << number;
        EXPECT_THAT(outcome.said, HasSubstr("\n  hint: ")) << "--" << field.name << " " << number;
      }
    }
  }
}

// All at once, so that what they multiply to is tried.
TEST_F(Limits, TheGreatestOfATrainingsLengthTrainIt) {
  const std::filesystem::path output = folder_.path() / "run";
  std::vector<std::string> words{"train",
                                 images(),
                                 "--network=mlp",
                                 "--execution=cpu",
                                 "--mini-batch-size=2",
                                 "--max-steps=3",
                                 "--output=" + output.string()};
  for (const FieldInfo& field : train_fields()) {
    for (const char* name :
         {"max-epochs", "validate-every", "patience", "warmup-steps", "accumulate", "checkpoint-every",
          "hash-every", "prefetch", "seed", "lr-drop-period", "gradient-clip"}) {
      if (field.name == name)
        words.push_back("--" + field.name + "=" +
                        (field.traits.high >= 0x1p63 ? kMostWhole : plain(field.traits.high)));
    }
  }
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.status, 0) << outcome.said;
  EXPECT_EQ(train::last_checkpoint(output)->state.step, 3);
}

// A JSON file has the same limits. One with a number beyond what a double holds is a damaged file, as one
// that is no JSON.
TEST_F(Limits, AnOptionsFileHasThem) {
  for (const FieldInfo& field : fields_of<train::Options>()) {
    if (!is_number(field)) continue;
    for (const std::string& value :
         {std::string("1e400"), plain(2 * field.traits.high + 2), std::string("null"), std::string("true")}) {
      const std::string item = field.type == "integers" ? "[" + value + "]" : value;
      const auto file = folder_.write("options.json", "{\"" + field.name + "\": " + item + "}");
      const Outcome outcome = run({"plan", images(), "--config", file.string()});
      EXPECT_EQ(outcome.status, value == "1e400" ? 1 : 2) << field.name << " " << value << "\n"
                                                          << outcome.said;
      EXPECT_THAT(outcome.said,
                  AllOf(StartsWith("lockstep: "), HasSubstr("options.json\""), HasSubstr("\n  hint: ")));
    }
  }
}

TEST_F(Limits, AProgramsOptionsHaveThem) {
  const auto refusal = [&](const train::Options& options) -> std::string {
    train::TrainingRequest request;
    request.folder = images();
    try {
      train::plan(request, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({.network = "mlp"}), "");
  EXPECT_THAT(refusal({.max_epochs = std::numeric_limits<int64_t>::max()}),
              StartsWith("option --max-epochs cannot be \"9223372036854775807\": it must be a whole number "
                         "from 0 to 1000000000\n  hint: "));
  EXPECT_THAT(refusal({.learning_rate = std::numeric_limits<double>::quiet_NaN()}),
              StartsWith("option --learning-rate cannot be \"nan\""));
  EXPECT_THAT(refusal({.seed = -1}), StartsWith("option --seed cannot be \"-1\""));
}

}  // namespace
}  // namespace lockstep::cli
