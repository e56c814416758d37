// The benchmarks are scripts, because the systems they compare with are Python programs. This verb finds the
// script and replaces itself with it.
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
    field("table", self.table, "also write the output to this Markdown file");
    field(
        "quick", self.quick,
        "run one short trial per side, only to check that the benchmark works; its results have no meaning");
  };
};

std::filesystem::path own_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

/// The folder beside the installed program, or the one in the sources if this program is in build/PRESET/bin.
std::filesystem::path find_script() {
  const std::filesystem::path prefix = own_path().parent_path().parent_path();
  const std::vector<std::filesystem::path> places{prefix / "share" / "lockstep" / "bench" / "cpu",
                                                  prefix.parent_path().parent_path() / "bench" / "cpu"};
  for (const std::filesystem::path& place : places) {
    if (std::filesystem::exists(place)) return place;
  }
  throw Error(
      ErrorCode::not_found,
      "cannot find the benchmarks: neither \"" + places[0].string() + "\" nor \"" + places[1].string() +
          "\" exists",
      "install Lockstep with cmake --install, or run the program on the machine that has its sources");
}

[[noreturn]] void become(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  throw Error(ErrorCode::not_found, "cannot start " + words.front() + ": " + std::strerror(errno),
              "run scripts/setup to install it");
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
