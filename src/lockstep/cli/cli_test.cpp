#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <pty.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/arguments.h"
#include "lockstep/cli/asked_options.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/engine.h"
#include "lockstep/cli/failure.h"
#include "lockstep/cli/help.h"
#include "lockstep/cli/plan.h"
#include "lockstep/cli/progress_line.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/cli/status_line.h"
#include "lockstep/cli/trained_model.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/cli/weights_difference.h"
#include "lockstep/device/failure.h"

namespace lockstep::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Verb& verb_named(const std::string& name) {
  for (const Verb& verb : builtin_verbs()) {
    if (verb.name == name) return verb;
  }
  throw std::runtime_error(name);
}

train::Options options_of(const std::vector<std::string>& arguments) {
  return training_options(read_arguments(verb_named("train"), arguments)).options;
}

Error error_of(const std::vector<std::string>& arguments) {
  try {
    options_of(arguments);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "no error"};
}

TEST(Arguments, WordsAndOptionsInAnyOrder) {
  const Call call =
      read_arguments(verb_named("train"), {"--workers", "3", "photos", "--nesterov", "--output=a b"});
  EXPECT_THAT(call.words, ElementsAre("photos"));
  EXPECT_EQ(call.text_of("workers"), "3");
  EXPECT_EQ(call.text_of("output"), "a b");
  EXPECT_EQ(call.text_of("nesterov"), "true");
  EXPECT_EQ(call.text_of("plot"), std::nullopt);
}

TEST(Arguments, SwitchesTakeNoWord) {
  const Call call = read_arguments(verb_named("train"), {"--nesterov", "photos", "--resume=false"});
  EXPECT_THAT(call.words, ElementsAre("photos"));
  EXPECT_EQ(call.text_of("resume"), "false");
}

TEST(Arguments, TheLastOfTwoWins) { EXPECT_EQ(options_of({"f", "--seed", "1", "--seed", "2"}).seed, 2); }

TEST(Arguments, FoldersThatLookLikeOptionsFollowTwoDashes) {
  EXPECT_THAT(read_arguments(verb_named("train"), {"--seed", "1", "--", "--photos"}).words,
              ElementsAre("--photos"));
  EXPECT_THAT(read_arguments(verb_named("train"), {"--nesterov", "--", "--photos"}).words,
              ElementsAre("--photos"));
}

TEST(Arguments, NegativeNumbersAreValues) {
  EXPECT_EQ(error_of({"f", "--seed", "-1"}).message(),
            "option --seed cannot be \"-1\": it must be a whole number from 0 to 9223372036854775807");
}

TEST(Arguments, UnknownOptionsAreNamedWithTheNearest) {
  EXPECT_EQ(error_of({"f", "--momentun", "0.9"}).message(), "there is no option --momentun");
  EXPECT_EQ(error_of({"f", "--momentun=0.9"}).hint(), "did you mean --momentum?");
  EXPECT_EQ(error_of({"f", "--epochs", "3"}).hint(), "did you mean --max-epochs?");
  EXPECT_EQ(error_of({"f", "--worker", "3"}).hint(), "did you mean --workers?");
  EXPECT_EQ(error_of({"f", "-x"}).hint(), "lockstep train --help lists all options");
}

TEST(Arguments, AbsentValuesAndWordsAreNamed) {
  EXPECT_EQ(error_of({"f", "--workers"}).message(), "option --workers needs a value");
  EXPECT_EQ(error_of({"f", "--output", "--resume"}).message(), "option --output needs a value");
  EXPECT_EQ(error_of({}).message(), "lockstep train needs a FOLDER");
  EXPECT_EQ(error_of({"a", "b"}).message(), "lockstep train does not accept the word \"b\"");
}

TEST(Arguments, NamesOfFilesAreNotEmpty) {
  const auto refusal = [](const std::vector<std::string>& arguments) -> std::string {
    try {
      check_places(read_arguments(verb_named("train"), arguments));
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  const std::string file = testing::TempDir() + "lockstep-places.json";
  for (const std::string name : {"validation", "test", "weights", "output"}) {
    const std::string option = "--" + name, refused = "option " + option + " is empty";
    EXPECT_EQ(refusal({"f", option, ""}), refused);
    std::ofstream(file) << "{\"" + name + "\": \"there\"}";
    EXPECT_EQ(refusal({"f", option, "", "--config", file}), "") << "takes back the file's";
    std::ofstream(file) << "{}";
    EXPECT_EQ(refusal({"f", option, "", "--config", file}), refused);
    EXPECT_EQ(refusal({"f", option, "", "--config", ""}), "option --config is empty");
  }
  std::filesystem::remove(file);
  EXPECT_EQ(refusal({"f", "--freeze", ""}), "");
}

TEST(Arguments, AnotherNameOfAnOptionIsTheOption) {
  EXPECT_EQ(read_arguments(verb_named("train"), {"f", "--learning-rate-schedule", "constant"})
                .text_of("lr-schedule"),
            "constant");
  EXPECT_EQ(options_of({"f", "--learning-rate-drop-period=3"}).lr_schedule, train::ScheduleKind::piecewise);
  EXPECT_EQ(error_of({"f", "--learning-rate-shedule", "constant"}).hint(),
            "did you mean --learning-rate-schedule?");
  EXPECT_EQ(error_of({"f", "--output", "--learning-rate-schedule"}).message(),
            "option --output needs a value");
  EXPECT_EQ(error_of({"f", "--learning-rate-drop-factor", "2"}).message(),
            "option --lr-drop-factor cannot be \"2\": it must be a number from 0 to 1");
}

TEST(RunOptions, ADropFactorOrPeriodAloneMeansPiecewise) {
  EXPECT_EQ(options_of({"f"}).lr_schedule, train::ScheduleKind::cosine);
  EXPECT_EQ(options_of({"f", "--lr-drop-period", "3"}).lr_schedule, train::ScheduleKind::piecewise);
  EXPECT_EQ(options_of({"f", "--lr-drop-factor", "0.5"}).lr_schedule, train::ScheduleKind::piecewise);
  EXPECT_EQ(options_of({"f", "--lr-drop-factor", "0.5", "--lr-schedule", "cosine"}).lr_schedule,
            train::ScheduleKind::cosine);
}

class OptionsFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("lockstep_cli_test_" + std::to_string(::getpid()));
};

TEST_F(OptionsFile, TheCommandLineWinsOverTheFile) {
  const std::string file =
      write("a.json",
            R"({"max-epochs": 5, "seed": 7, "lr-drop-period": 2, "devices": [0, 2], "validation": "held"})");
  const train::Options options = options_of({"f", "--seed", "8", "--validation", "", "--config", file});
  EXPECT_EQ(options.validation, "");
  EXPECT_EQ(options.max_epochs, 5);
  EXPECT_EQ(options.seed, 8);
  EXPECT_EQ(options.lr_schedule, train::ScheduleKind::piecewise);
  EXPECT_THAT(options.devices, ElementsAre(0, 2));
}

TEST_F(OptionsFile, MistakesAreNamedWithTheFile) {
  const Error misspelt = error_of({"f", "--config", write("b.json", R"({"momentun": 1})")});
  EXPECT_EQ(misspelt.message(), "there is no option --momentun");
  EXPECT_THAT(misspelt.context(), ElementsAre(HasSubstr("b.json")));
  EXPECT_THAT(error_of({"f", "--config", write("d.json", R"({"seed": "one"})")}).context().at(0),
              HasSubstr("d.json"));
  EXPECT_THAT(error_of({"f", "--config", write("c.json", "{")}).message(), HasSubstr("not valid JSON"));
  const Error deep = error_of(
      {"f", "--config",
       write("e.json", R"({"seed": )" + std::string(200'000, '[') + std::string(200'000, ']') + "}")});
  EXPECT_EQ(deep.code(), ErrorCode::corrupt_data);
  EXPECT_THAT(deep.message(), HasSubstr("e.json\": it is nested deeper than 32 levels"));
  EXPECT_EQ(error_of({"f", "--config", (folder_ / "none.json").string()}).code(), ErrorCode::not_found);
}

TEST(PlanText, LinesAreBrokenBetweenWords) {
  const std::vector<train::PlanLine> lines{{"data", "9,000 images", "image folder"},
                                           {"shards", "8", "for 123,090 learnables and mini-batches of 128"}};
  EXPECT_EQ(plan_text(lines, 0),
            "data    9,000 images  image folder\nshards  8             for 123,090 learnables and "
            "mini-batches of 128\n");
  EXPECT_EQ(plan_text(lines, 60),
            "data    9,000 images  image folder\nshards  8             for 123,090 learnables and\n          "
            "            mini-batches of 128\n");
  EXPECT_EQ(plan_text(lines, 40),
            "data    9,000 images  image folder\nshards  8\n          for 123,090 learnables and\n          "
            "mini-batches of 128\n");
  EXPECT_EQ(plan_text({{"network", "réseau", "a file"}, {"shards", "8", "by default"}}, 0),
            "network  réseau  a file\nshards   8       by default\n");
}

TEST(RunOptions, InferenceKnowsOnlyWhatIsOfUseToIt) {
  const Call call =
      read_arguments(verb_named("evaluate"), {"run", "photos", "--weights", "best", "--workers", "2"});
  const train::Options options = inference_options(call);
  EXPECT_EQ(options.workers, 2);
  EXPECT_EQ(options.weights, "");
  EXPECT_THROW(read_arguments(verb_named("evaluate"), {"run", "photos", "--momentum", "0"}), Error);
}

TEST(RunOptions, WithExactTheShardsAreThoseOfTheRun) {
  train::Model model;
  model.mini_batch_size = 40;
  model.shards = 2;
  const auto sizes_with = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"run", "photos"});
    const Call call = read_arguments(verb_named("evaluate"), options);
    const train::Options used = options_for_scores(call, model, inference_options(call));
    return std::vector<int64_t>{used.mini_batch_size, used.shards};
  };
  EXPECT_THAT(sizes_with({}), ElementsAre(128, 0));
  EXPECT_THAT(sizes_with({"--exact"}), ElementsAre(40, 2));
  EXPECT_THAT(sizes_with({"--exact", "--shards", "3"}), ElementsAre(40, 3));
  EXPECT_THAT(sizes_with({"--exact", "--mini-batch-size", "128"}), ElementsAre(128, 2));
  model = {};
  EXPECT_THAT(sizes_with({"--exact"}), ElementsAre(128, 0)) << "weights that are of no run";
}

TEST(Engine, HasTheCommandsThatTheProgramLeavesToIt) {
  std::vector<std::string> left;
  for (const Verb& verb : builtin_verbs()) {
    if (verb.run == nullptr) left.push_back(verb.name);
  }
  EXPECT_EQ(engine_command_names(), left);
}

TEST(Help, LinesFitTheWidth) {
  for (const Verb& verb : builtin_verbs()) {
    for (const int width : {80, 100}) {
      for (const std::string& line : split(verb_help(verb, width), '\n'))
        EXPECT_LE(line.size(), static_cast<size_t>(width)) << line;
    }
  }
  EXPECT_EQ(wrap("one two three", 7, 2), "one two\n  three");
}

TEST(Help, EveryOptionIsListed) {
  const std::string text = verb_help(verb_named("train"), 80);
  for (const std::string& name : field_names<train::Options>()) EXPECT_THAT(text, HasSubstr("  --" + name));
}

TEST(Columns, TextLeftAndNumbersRight) {
  EXPECT_EQ(in_columns({{"a", "10"}, {"bbb", "5"}}, "lr"), "  a    10\n  bbb   5\n");
}

TEST(Columns, WideLettersAndLongNamesKeepATableReadable) {
  EXPECT_EQ(in_columns({{"\xE7\x8C\xAB", "1"}, {"dog", "22"}}, "lr"), "  \xE7\x8C\xAB    1\n  dog  22\n");
  EXPECT_EQ(name_cell("a cat"), "a cat");
  EXPECT_EQ(width_of(name_cell(std::string(200, 'x'))), 40);
}

TEST(Columns, AWideTableIsCutBetweenColumnsAndWords) {
  const std::vector<std::vector<std::string>> rows{
      {"workers", "first epoch", "efficiency", "advice"},
      {"1", "10 s", "100 %", "larger mini-batches, or fewer workers on this machine"}};
  EXPECT_EQ(in_columns_within(0, rows, "rrrl"), in_columns(rows, "rrrl"));
  EXPECT_EQ(in_columns_within(120, rows, "rrrl"), in_columns(rows, "rrrl"));
  EXPECT_EQ(in_columns_within(40, rows, "rrrl"),
            "  workers  first epoch  efficiency\n"
            "        1         10 s       100 %\n"
            "\n"
            "  workers  advice\n"
            "        1  larger mini-batches, or fewer\n"
            "           workers on this machine\n");
  for (const int width : {30, 44, 60, 80}) {
    for (const std::string& line : split(in_columns_within(width, rows, "rrrl"), '\n'))
      EXPECT_LE(width_of(line), width);
  }
}

TEST(Failure, ForeignExceptionsBecomeOneSentence) {
  const auto text = [](auto exception) { return failure_text(as_error(std::make_exception_ptr(exception))); };
  EXPECT_THAT(text(std::bad_alloc()), HasSubstr("lockstep: out of memory\n  hint: "));
  EXPECT_THAT(text(std::runtime_error("first\nsecond")), testing::Not(HasSubstr("second")));
  try {
    at::ones({2, 3}).matmul(at::ones({2, 3}));
  } catch (const c10::Error&) {
    const std::string said = failure_text(as_error(std::current_exception(), device::error_of));
    // LibTorch 2.15 names its operator first: "mm: mat1 and mat2 ...".
    EXPECT_THAT(said, testing::ContainsRegex("LibTorch says: (mm: )?mat1 and mat2"));
    EXPECT_THAT(said, testing::Not(HasSubstr("frame #")));
  }
}

TEST(WeightsDifference, NamesTheTensorsThatDiffer) {
  const at::Tensor a = at::zeros({2, 3});
  at::Tensor b = a.clone();
  b[1][2] = 0.5;
  EXPECT_TRUE(different_tensors({{"w", a}}, {{"w", a.clone()}}).empty());
  const auto differences = different_tensors({{"w", a}, {"only_a", a}}, {{"w", b}, {"only_b", a}});
  ASSERT_EQ(differences.size(), 3u);
  EXPECT_EQ(differences[0].name, "w");
  EXPECT_EQ(differences[0].different, 1);
  EXPECT_EQ(differences[0].largest, 0.5);
  EXPECT_EQ(differences[1].note, "only in the first one");
  EXPECT_EQ(differences[2].note, "only in the second one");
  EXPECT_EQ(different_tensors({{"w", a}}, {{"w", at::zeros({3, 2})}})[0].note, "Float [2,3] and Float [3,2]");
  EXPECT_NE(weights_hash({{"w", a}}), weights_hash({{"w", b}}));
}

TEST(WeightsDifference, ComparesWithoutNamesInTheOrderOfTheTensors) {
  const at::Tensor a = at::zeros({2, 3});
  const at::Tensor b = at::ones({2, 3});
  EXPECT_TRUE(are_equal_without_names({{"v", a}, {"w", b}}, {{"x", a.clone()}, {"y", b.clone()}}));
  EXPECT_FALSE(are_equal_without_names({{"v", a}, {"w", b}}, {{"x", b}, {"y", a}}));
  EXPECT_FALSE(are_equal_without_names({{"v", a}}, {{"x", a}, {"y", b}}));
  EXPECT_FALSE(are_equal_without_names({{"v", a}}, {{"x", at::zeros({3, 2})}}));
}

// On a terminal: all that was written to it.
std::string shown_on_terminal(const std::function<void(Console&)>& work) {
  int master = -1, slave = -1;
  EXPECT_EQ(::openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
  std::FILE* const terminal = ::fdopen(slave, "w");
  Console console(stdout, terminal, 80);
  work(console);
  std::fflush(terminal);
  std::string text;
  std::array<char, 1000> part{};
  ::fcntl(master, F_SETFL, O_NONBLOCK);
  for (ssize_t got = 0; (got = ::read(master, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<size_t>(got));
  std::fclose(terminal);
  ::close(master);
  return text;
}

std::string shown_of_counts(const std::vector<int64_t>& counts, int64_t all) {
  return shown_on_terminal([&](Console& console) {
    ProgressLine line(console, "images", all);
    for (const int64_t count : counts) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1100));
      line.add(count);
    }
  });
}

TEST(StatusLine, GoesAwayAndSaysTheTimeLeftOnceSomethingIsDone) {
  ::setenv("TERM", "xterm", 1);
  EXPECT_THAT(shown_on_terminal([](Console& console) {
                StatusLine line(console);
                line.show([]() -> std::string { throw std::logic_error("asked for too soon"); });
                std::this_thread::sleep_for(std::chrono::milliseconds(1100));
                line.show([&] { return "none" + line.time_left(0, 5); });
                std::this_thread::sleep_for(std::chrono::milliseconds(300));
                line.show([&] { return "some" + line.time_left(1, 5) + line.time_left(6, 0); });
              }),
              testing::ContainsRegex("^\rnone\x1b.K\rsome, [0-9.]+ s left\x1b.K\r\x1b.K$"));
}

TEST(ProgressLine, SaysHowFarAndGoesAway) {
  ::setenv("TERM", "xterm", 1);
  EXPECT_THAT(shown_of_counts({500, 300}, 2000),
              testing::ContainsRegex("^\r500 of 2,000 images, [0-9.]+ s left\x1b.K\r800 of 2,000 images, "
                                     "[0-9.]+ s left\x1b.K\r\x1b.K$"));
  EXPECT_EQ(shown_of_counts({2000}, 2000), "");
}

TEST(ProgressLine, ADumbTerminalIsNotRedrawn) {
  ::setenv("TERM", "dumb", 1);
  EXPECT_EQ(shown_of_counts({500, 300}, 2000).find_first_of("\r\x1b"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::cli
