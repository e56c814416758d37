// The benches are scripts, for their peers are Python programs; this finds them and becomes them.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/cli/verbs.h"

namespace lockstep::cli {
namespace {

constexpr const char* kPython = "python3";

struct BenchOptions {
  std::string table;
  bool quick = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Benches");
    field("table", self.table, "write what is printed to this Markdown file too");
    field("quick", self.quick, "one short trial a side, to see that a bench works; its figures mean nothing");
  };
};

std::filesystem::path own_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

/// Beside the installed program, or else in the sources that this one was built from.
std::filesystem::path find_script() {
  const std::filesystem::path prefix = own_path().parent_path().parent_path();
  const std::vector<std::filesystem::path> places{prefix / "share" / "lockstep" / "bench" / "cpu",
                                                  LOCKSTEP_SOURCE_BENCH "/cpu"};
  for (const std::filesystem::path& place : places) {
    if (std::filesystem::exists(place)) return place;
  }
  throw Error(ErrorCode::not_found,
              "cannot find the benches: neither \"" + places[0].string() + "\" nor \"" + places[1].string() +
                  "\" is there",
              "install Lockstep with cmake --install, or run the program where its sources are");
}

[[noreturn]] void become(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  throw Error(ErrorCode::not_found, "cannot start " + words.front() + ": " + std::strerror(errno),
              "scripts/setup installs it");
}

}  // namespace

std::vector<FieldInfo> bench_fields() { return fields_of<BenchOptions>(); }

int run_bench(const Call& call, Console&) {
  const auto options = settings_of<BenchOptions>(call);
  std::vector<std::string> words{kPython, find_script().string(), "--lockstep", own_path().string()};
  if (!options.table.empty()) words.insert(words.end(), {"--table", options.table});
  if (options.quick) words.emplace_back("--quick");
  words.emplace_back("--");
  words.insert(words.end(), call.words.begin(), call.words.end());
  become(words);
}

}  // namespace lockstep::cli
