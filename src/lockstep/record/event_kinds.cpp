#include "lockstep/record/event_kinds.h"

#include <algorithm>
#include <array>

namespace lockstep::record {
namespace {

struct MarkdownRow {
  std::string text;
  bool first = true;
  void operator()(const char*) {}
  template <class T>
  void operator()(const char* name, T&, const char* help, FieldTraits = {}) {
    text +=
        (first ? "`" : ", `") + std::string(name) + "`" + (*help == 0 ? "" : " (" + std::string(help) + ")");
    first = false;
  }
};

template <EventKind K>
std::string row_of() {
  K values;
  MarkdownRow row;
  K::describe(values, row);
  return "| `" + std::string(K::kind) + "` | " + row.text + " | " + K::when + " |\n";
}

template <class... Kinds>
std::string rows_of() {
  return (row_of<Kinds>() + ...);
}

}  // namespace

bool is_replaced_with_its_step(std::string_view kind) {
  constexpr std::array<std::string_view, 7> kinds_that_stay{"plan",    "environment", "skipped", "stopping",
                                                            "request", "failed",      "end"};
  return std::find(kinds_that_stay.begin(), kinds_that_stay.end(), kind) == kinds_that_stay.end();
}

std::string kinds_markdown() {
  return "| kind | values | when |\n|---|---|---|\n" +
         rows_of<PlanOfRun, Environment, Message, Skipped, Shards, Features, FirstStep, Step, Average,
                 Validation, Hash, SavedCheckpoint, SavedBest, Stopping, Answer, Failed, End>();
}

}  // namespace lockstep::record
