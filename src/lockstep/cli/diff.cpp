#include <filesystem>
#include <optional>
#include <set>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/help.h"
#include "lockstep/cli/run_weights.h"
#include "lockstep/cli/trained_model.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/cli/weights_difference.h"
#include "lockstep/record/difference.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/log_name.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMostRows = 40;

struct Side {
  std::filesystem::path path{};
  std::vector<record::Event> events{};
  std::optional<nn::NamedTensors> weights{};
  std::string weights_name{};
  bool has_log = false;
  std::string hash{};  // that the run has recorded for these weights
};

Side read_side(const std::filesystem::path& path) {
  Side side{.path = path};
  if (auto found = read_run_weights(path)) {
    side.weights = std::move(found->tensors);
    side.weights_name = found->name;
  }
  if (std::filesystem::is_regular_file(path)) return side;
  side.has_log = !record::log_files(path).empty();
  if (side.weights && side.weights_name == kFinalWeights)
    side.hash = recorded_hash(record::RunPaths{path}.weights(), *side.weights);
  if (side.has_log || !side.weights) side.events = record::read_events(path);
  return side;
}

std::string first_step_text(const Side& a, const Side& b) {
  const auto difference = record::first_difference(a.events, b.events);
  const int64_t common = record::common_hash_steps(a.events, b.events);
  if (!difference)
    return common == 0
               ? ""
               : "the weights' hashes are equal at " +
                     (common == 1 ? std::string("the one step") : "all " + with_commas(common) + " steps") +
                     " that both runs hashed";
  return "the weights differ from step " + with_commas(difference->step) + " on (" + difference->hash_a +
         ", " + difference->hash_b + "); " +
         (difference->last_equal_step == 0
              ? "no earlier step was hashed in both runs"
              : "they are equal at step " + with_commas(difference->last_equal_step));
}

std::string weights_names(const Side& a, const Side& b) {
  return a.weights_name == b.weights_name ? a.weights_name : a.weights_name + " and " + b.weights_name;
}

// Of weights that are equal but for the names of their tensors: layers can be named in one network file only.
std::string other_names_text(const nn::NamedTensors& a, const nn::NamedTensors& b) {
  size_t count = 0;
  std::string first;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].first == b[i].first) continue;
    if (count++ == 0) first = quote(a[i].first) + " and " + quote(b[i].first);
  }
  return "same weights; " + with_commas(static_cast<int64_t>(count)) + " of " +
         counted(std::ssize(a), "tensor") + (count == 1 ? " has" : " have") + " different names, such as " +
         first;
}

std::string tensor_table(const std::vector<TensorDifference>& differences, int width) {
  std::vector<std::vector<std::string>> rows{{"tensor", "different elements", "largest difference"}};
  for (const TensorDifference& one : differences) {
    if (rows.size() > kMostRows) break;
    if (!one.note.empty()) {
      rows.push_back({one.name, one.note, ""});
    } else {
      rows.push_back(
          {one.name, with_commas(one.different) + " of " + with_commas(one.elements), shortest(one.largest)});
    }
  }
  const size_t left_out = differences.size() + 1 - rows.size();
  return in_columns_within(width, rows, "lll") +
         (left_out == 0 ? "" : "  and " + with_commas(static_cast<int64_t>(left_out)) + " more tensors\n");
}

// As `runs show`, the table of a sweep and the event `hash` have it, where a run has recorded it. It cannot
// be made from a file, whose tensors have another order.
std::string same_weights_text(const Side& a, const Side& b) {
  const std::string& hash = a.hash.empty() ? b.hash : a.hash;
  if (!hash.empty() && (b.hash.empty() || b.hash == hash)) return "same weights: " + hash;
  return "same weights: their tensors have the hash " + as_hex(weights_hash(*a.weights));
}

// A tensor that both have counts once.
int64_t count_of_tensors(const nn::NamedTensors& a, const nn::NamedTensors& b) {
  std::set<std::string> names;
  for (const auto& entry : a) names.insert(entry.first);
  for (const auto& entry : b) names.insert(entry.first);
  return static_cast<int64_t>(names.size());
}

}  // namespace

int run_diff(const Call& call, Console& console) {
  const Side a = read_side(call.words[0]);
  const Side b = read_side(call.words[1]);
  const int width = console.table_width();
  for (const Side* side : {&a, &b}) {
    if (!side->has_log && std::filesystem::is_directory(side->path))
      console.note(quote(side->path.string()) + " has no event log, so only the weights are compared\n");
  }
  std::string steps = first_step_text(a, b);
  if (!steps.empty()) steps = sentence(steps, width);
  const bool steps_differ = record::first_difference(a.events, b.events).has_value();
  if (!a.weights || !b.weights) {
    if (steps.empty()) {
      throw Error(ErrorCode::not_found,
                  "\"" + (a.weights ? b : a).path.string() +
                      "\" has no weights yet, and no step was hashed in both runs",
                  "wait until the runs end, or train with --hash-every 1");
    }
    console.print(steps);
    return steps_differ ? 1 : 0;
  }
  const std::vector<TensorDifference> differences = different_tensors(*a.weights, *b.weights);
  if (differences.empty()) {
    console.print(same_weights_text(a, b) + "\n" + steps);
    return 0;
  }
  if (are_equal_without_names(*a.weights, *b.weights)) {
    console.print(sentence(other_names_text(*a.weights, *b.weights), width) + steps);
    return 0;
  }
  console.print(steps + weights_names(a, b) + " differ in " +
                with_commas(static_cast<int64_t>(differences.size())) + " of " +
                counted(count_of_tensors(*a.weights, *b.weights), "tensor") + ":\n" +
                tensor_table(differences, width));
  return 1;
}

}  // namespace lockstep::cli
