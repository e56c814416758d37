#include <filesystem>
#include <tuple>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/sweep/engine.h"
#include "lockstep/sweep/internal/trial_process.h"

namespace lockstep::sweep {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class SweepStarts : public testing::Test {
 protected:
  SweepStarts() {
    spec_.space.add("x", "1..5");
    spec_.options.count = 2;
    write_spec(paths_, spec_);
  }

  // Of a start with the spec, here or with --profile; empty: it was not refused.
  std::string refusal(const SweepPaths& paths, bool is_shared, const FoundSpec& found = "") const {
    try {
      if (is_shared) {
        prepare_shared_sweep(paths, spec_, found);
      } else {
        run_sweep(paths, spec_, {.found = found});
      }
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  }

  test::TemporaryFolder folder_;
  SweepPaths paths_{folder_.path()};
  SweepSpec spec_{.command = {"echo", "result", "{x}"}};
};

// One here and one with --profile, too.
TEST_F(SweepStarts, OneOfSeveralFirstStartsBegins) {
  const SweepPaths fresh{paths_.folder / "fresh"};
  make_folders(fresh.folder);
  for (const fs::path& held : {fresh.lock(), fresh.jobs_lock()}) {
    const auto lock = jobs::FileLock::try_take(held);
    for (const bool is_shared : {false, true})
      EXPECT_THAT(refusal(fresh, is_shared), HasSubstr("another program works on the sweep"));
  }
  EXPECT_FALSE(fs::exists(fresh.spec()));
  const std::string before = read_file(paths_.spec());
  for (const bool is_shared : {false, true})
    EXPECT_THAT(refusal(paths_, is_shared), testing::StartsWith("another program has begun the sweep"));
  EXPECT_EQ(read_file(paths_.spec()), before);
  EXPECT_EQ(refusal(fresh, false), "");
  EXPECT_FALSE(jobs::is_held(fresh.jobs_lock()));
}

// As after a look, before another one continued the sweep with more trials and ended.
TEST_F(SweepStarts, AnOlderSpecDoesNotReplaceANewerOne) {
  const std::string found = spec_text(paths_);
  SweepSpec more = spec_;
  more.options.count = 5;
  write_spec(paths_, more);
  for (const bool is_shared : {false, true}) {
    EXPECT_THAT(refusal(paths_, is_shared, found),
                testing::StartsWith("another program has changed the sweep"));
    EXPECT_EQ(read_spec(paths_).options.count, 5);
    EXPECT_FALSE(fs::exists(paths_.log()));
  }
  spec_ = more;
  EXPECT_EQ(refusal(paths_, true, spec_text(paths_)), "");
  EXPECT_EQ(refusal(paths_, false, spec_text(paths_)), "");
  EXPECT_EQ(read_table(paths_).rows.size(), 5u);
  EXPECT_EQ(spec_text({paths_.folder / "none"}), "");
}

// It may go on with fewer places.
TEST_F(SweepStarts, TrialsOfAKilledProgramWaitWhenTheSweepGoesOn) {
  const auto parameters = std::vector<std::string>{"x=1"};
  LogWriter log(paths_);
  for (const int64_t trial : {0, 1})
    log.write({.kind = LogKind::begin, .trial = trial, .parameters = parameters});
  log.write({.kind = LogKind::outcome, .trial = 1, .state = TrialState::ended, .value = 1});
  prepare_shared_sweep(paths_, spec_);
  const auto lock = jobs::FileLock::try_take(paths_.lock());  // as by who goes on
  const Table table = read_table(paths_);
  EXPECT_TRUE(table.is_going_on);
  EXPECT_EQ(table.rows.at(0).state, TrialState::waiting);
  EXPECT_EQ(table.rows.at(1).state, TrialState::ended);
  log.write({.kind = LogKind::begin, .trial = 0, .parameters = parameters});
  EXPECT_EQ(read_table(paths_).rows.at(0).state, TrialState::running);
}

// A job that waited in its queue meanwhile.
TEST_F(SweepStarts, AJobThatIsAskedToStopBeforeItBeginsTrainsNothing) {
  prepare_shared_sweep(paths_, spec_);
  ask_jobs_to_stop(paths_);
  EXPECT_FALSE(run_sweep(paths_, spec_, {.shared = true}).is_complete);
  EXPECT_TRUE(read_log(paths_).empty());
  prepare_shared_sweep(paths_, spec_);
  EXPECT_TRUE(run_sweep(paths_, spec_, {.shared = true}).is_complete);
}

// Until the trial starts again.
TEST_F(SweepStarts, AFileOfParametersOfAnEarlierVersionIsNamed) {
  const SweepSpec spec{.command = {"./simulate", "{parameters}"}};
  const fs::path earlier = paths_.trial(0) / "parameters.json";
  make_folders(earlier.parent_path());
  write_file_atomic(earlier, "{}");
  EXPECT_EQ(command_of(paths_, spec, 0, {{"x", "1"}}).back(), fs::absolute(earlier).string());
  const std::string file = fs::absolute(paths_.parameters(0)).string();
  EXPECT_EQ(prepare_trial(paths_, spec, {.parameters = {{"x", "1"}}}).back(), file);
  EXPECT_EQ(command_of(paths_, spec, 0, {{"x", "1"}}).back(), file);
}

TEST_F(SweepStarts, AnEmptyPlaceOfAnEarlierVersionIsLeftOut) {
  SweepSpec spec{
      .command = {"train", "data", "--config=", "--weights", "a", "--test=", "--weights", "", "--freeze", ""},
      .working_folder = paths_.folder.string()};
  EXPECT_EQ(command_of(paths_, spec, 0, {{"validation", ""}}),
            (std::vector<std::string>{"train", "data", "--freeze", ""}));
  std::ofstream(paths_.folder / "options.json") << R"({"test": "more"})";
  spec.command = {"train", "data", "--config", "options.json", "--test", "", "--weights", ""};
  EXPECT_EQ(command_of(paths_, spec, 0, {}),
            (std::vector<std::string>{"train", "data", "--config", "options.json", "--test", ""}))
      << "the file's";
}

// Also of a folder that an earlier version has written.
TEST_F(SweepStarts, SaysWhatMayGiveAnotherTable) {
  EXPECT_THAT(read_file(paths_.spec()), HasSubstr("\"not_reproducible\": []"));
  Json json{{"command", {"./simulate"}}, {"parameters", {{"x", "1..5"}}}, {"free", true}};
  EXPECT_THAT(not_reproducible_text(spec_from_json(json, "it")), testing::EndsWith("because of --free"));
  json["not_reproducible"] = {"--max-time", "--metric \033[2Jseconds\n"};
  EXPECT_THAT(not_reproducible_text(spec_from_json(json, "it")),
              testing::EndsWith("because of --max-time and --metric ?[2Jseconds "));
}

// Each says the file, what is in it, and what to do.
TEST_F(SweepStarts, RefusesAFileThatWasChangedOrIsOfAnotherVersion) {
  const Json whole = parse_json(read_file(paths_.spec()));
  const auto refused = [&](const char* key, const Json& value) -> std::string {
    Json json = whole;
    json[key] = value;
    write_file_atomic(paths_.spec(), json.dump());
    try {
      read_spec(paths_);
      return "";
    } catch (const Error& error) {
      EXPECT_FALSE(error.hint().empty()) << error.message();
      return std::string(error.what()) + error.hint();
    }
  };
  const std::string file = paths_.spec().string();
  for (const auto& [key, value, reason] : std::vector<std::tuple<const char*, Json, std::string>>{
           {"new-thing", 3, "has \"new-thing\", which no sweep of this version has"},
           {"trails", 3, "did you mean trials?"},
           {"working_folder", 3, "the working folder is no text"},
           {"not_reproducible", Json::array({1}), "\"not_reproducible\" is no list of texts"},
           {"command", Json::array({1}), "the command is no list of words"},
           {"command", Json::array(), "the command is no list of words"},
           {"count", "many", "--count cannot be \"many\""},
           {"parameters", Json::array({1}), "are not a JSON object"},
           {"parameters", {{"x", "a..b"}}, "\"a\" is no number"}}) {
    EXPECT_THAT(refused(key, value), testing::AllOf(HasSubstr(reason), HasSubstr(file)))
        << key << " " << value;
  }
  write_file_atomic(paths_.spec(), "{");
  EXPECT_THROW(read_spec(paths_), Error);
}

}  // namespace
}  // namespace lockstep::sweep
