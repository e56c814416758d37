#include <algorithm>
#include <cstdio>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/record/disk_use.h"
#include "lockstep/record/remove_run.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMostNamed = 3;

struct RemoveChoice {
  bool yes = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Removing");
    field("yes", self.yes, "remove without a question");
  };
};

bool is_confirmed(const std::string& run, int64_t bytes, Console& console) {
  console.note("remove " + printable(run) + " (" + as_bytes(bytes) + ")? [y/N] ");
  std::string answer;
  for (int c = std::getchar(); c != EOF && c != '\n'; c = std::getchar()) answer += static_cast<char>(c);
  return lower(answer) == "y" || lower(answer) == "yes";
}

std::string removed_text(const std::string& run, int64_t bytes, const record::RemovedRun& removed) {
  std::string text = "removed " + printable(run) + " (" + as_bytes(bytes) + ")\n";
  if (removed.kept.empty()) return text;
  const size_t named = std::min(kMostNamed, removed.kept.size());
  const std::vector<std::string> names(removed.kept.begin(),
                                       removed.kept.begin() + static_cast<std::ptrdiff_t>(named));
  return text + "  kept what is no file of a run: " + printable(join(names, ", ")) +
         (named < removed.kept.size() ? ", ..." : "") + "\n";
}

}  // namespace

std::vector<FieldInfo> runs_remove_fields() { return fields_of<RemoveChoice>(); }

int run_runs_remove(const Call& call, Console& console) {
  const bool yes = settings_of<RemoveChoice>(call).yes;
  // All are looked at before the first is removed.
  for (const std::string& run : call.words) record::check_removable(run);
  if (!yes && ::isatty(STDIN_FILENO) != 1)
    throw Error(ErrorCode::invalid_option, "nobody can be asked whether to remove " + quote(call.words[0]),
                "add --yes to remove it without a question");
  for (const std::string& run : call.words) {
    const int64_t bytes = record::disk_use(run);
    if (!yes && !is_confirmed(run, bytes, console)) {
      console.note("kept " + printable(run) + "\n");
      continue;
    }
    console.print(removed_text(run, bytes, record::remove_run(run)));
  }
  return 0;
}

}  // namespace lockstep::cli
