#include <filesystem>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/sweep/engine.h"

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

  test::TemporaryFolder folder_;
  SweepPaths paths_{folder_.path()};
  SweepSpec spec_{.command = {"echo", "result", "{x}"}};
};

// One here and one with --profile, too.
TEST_F(SweepStarts, OneOfSeveralFirstStartsBegins) {
  const auto refusal = [&](const SweepPaths& paths, bool is_shared) -> std::string {
    try {
      if (is_shared) {
        prepare_shared_sweep(paths, spec_, SweepStart::begins);
      } else {
        run_sweep(paths, spec_, {.start = SweepStart::begins});
      }
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
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

// Also of a folder that an earlier version has written.
TEST_F(SweepStarts, SaysWhatMayGiveAnotherTable) {
  EXPECT_THAT(read_file(paths_.spec()), HasSubstr("\"not_reproducible\": []"));
  Json json{{"command", {"./simulate"}}, {"parameters", {{"x", "1..5"}}}, {"free", true}};
  EXPECT_THAT(not_reproducible_text(spec_from_json(json, "it")), testing::EndsWith("because of --free"));
  json["not_reproducible"] = {"--max-time", "--metric \033[2Jseconds\n"};
  EXPECT_THAT(not_reproducible_text(spec_from_json(json, "it")),
              testing::EndsWith("because of --max-time and --metric ?[2Jseconds "));
}

}  // namespace
}  // namespace lockstep::sweep
