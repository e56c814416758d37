#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/studio/commands.h"

namespace lockstep::studio {
namespace {

// Its words are those of a shell.
std::filesystem::path shell_in(const test::TemporaryFolder& folder) {
  const std::filesystem::path program = folder.write("program", "#!/bin/sh\neval \"$*\"\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  return program;
}

bool is_running(const Json& command) { return !command.contains("status"); }

ErrorCode code_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.code();
  }
  return ErrorCode::internal;
}

size_t files_below(const std::filesystem::path& folder) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    files += entry.is_regular_file() ? 1 : 0;
  return files;
}

TEST(Commands, KeepsThoseThatWereAskedAboutLast) {
  const test::TemporaryFolder folder, outputs;
  ::setenv("TMPDIR", outputs.path().c_str(), 1);
  EventStream events;
  Commands commands(shell_in(folder), events);
  ::unsetenv("TMPDIR");
  const int64_t running =
      commands.start({"while test -e '" + folder.path().string() + "'; do sleep 0.1; done"});
  const int64_t shown = commands.start({"echo", "shown"});
  int64_t last = 0;
  for (int i = 0; i < 105; ++i) {
    last = commands.start({"echo", "said"});
    while (is_running(commands.about(last))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    commands.about(shown);
  }
  EXPECT_EQ(commands.list().size(), 101U) << "one of them runs";
  EXPECT_EQ(files_below(outputs.path()), 101U);
  EXPECT_TRUE(is_running(commands.about(running)));
  EXPECT_EQ(commands.about(shown)["output"], "shown\n");
  EXPECT_EQ(commands.about(last)["output"], "said\n");
  EXPECT_EQ(code_of([&] { commands.about(shown + 1); }), ErrorCode::not_found);
}

TEST(Commands, EndsAnAnswerThatHasClosedItsOutputsAtTheLimit) {
  const test::TemporaryFolder folder;
  EventStream events;
  Commands commands(shell_in(folder), events);
  EXPECT_EQ(code_of([&] { commands.output_of({"exec sleep 600 >&- 2>&-"}, std::chrono::seconds(1)); }),
            ErrorCode::timeout);
  commands.stop_answers();
  EXPECT_EQ(code_of([&] { commands.output_of({"exec sleep 600 >&- 2>&-"}, std::chrono::seconds(600)); }),
            ErrorCode::cancelled);
}

TEST(Commands, TellsTheErrorOfACommandWithItsHint) {
  const test::TemporaryFolder folder;
  EventStream events;
  Commands commands(shell_in(folder), events);
  try {
    commands.output_of({"printf 'warning: w\\nlockstep: no x\\n  of y\\n  hint: make x\\n' >&2; exit 1"},
                       std::chrono::seconds(60));
    FAIL() << "it ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "no x\n  of y");
    EXPECT_EQ(error.hint(), "make x");
  }
}

TEST(Commands, StartsNothingThatIsNotWhatIsShown) {
  const test::TemporaryFolder folder;
  EventStream events;
  Commands commands(shell_in(folder), events);
  const std::vector<std::string> words{std::string("echo a\0b", 8)};
  EXPECT_EQ(code_of([&] { commands.shown(words); }), ErrorCode::invalid_option);
  EXPECT_EQ(code_of([&] { commands.start(words); }), ErrorCode::invalid_option);
  EXPECT_EQ(code_of([&] { commands.output_of(words, std::chrono::seconds(60)); }), ErrorCode::invalid_option);
}

}  // namespace
}  // namespace lockstep::studio
