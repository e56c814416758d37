#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/downloading.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/nn/trained_weights.h"

namespace lockstep::cli {
namespace {

bool is_cached(const nn::TrainedWeights& weights) {
  std::error_code none;
  return std::filesystem::is_regular_file(weights.path(), none);
}

Json weights_json() {
  Json list = Json::array();
  for (const nn::TrainedWeights& weights : nn::trained_weights()) {
    list.push_back({{"network", weights.network},
                    {"classes", weights.classes},
                    {"top1", weights.top1},
                    {"top5", weights.top5},
                    {"megabytes", weights.megabytes},
                    {"input", weights.expected_input()},
                    {"address", weights.address()},
                    {"path", weights.path().string()},
                    {"cached", is_cached(weights)}});
  }
  return list;
}

}  // namespace

std::vector<FieldInfo> weights_list_fields() { return fields_of<JsonOutput>(); }
std::vector<FieldInfo> weights_get_fields() { return fields_of<MirrorChoice>(); }

int run_weights_list(const Call& call, Console& console) {
  if (settings_of<JsonOutput>(call).json) {
    console.print(weights_json().dump(2) + "\n");
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"network", "classes", "accuracy", "top-5", "size", "cached"}};
  for (const nn::TrainedWeights& weights : nn::trained_weights()) {
    rows.push_back({weights.network, with_commas(weights.classes), fixed(weights.top1, 1) + " %",
                    fixed(weights.top5, 1) + " %", fixed(weights.megabytes, 1) + " MB",
                    is_cached(weights) ? "yes" : "no"});
  }
  console.print(in_columns_within(console.table_width(), rows, "lrrrrl"));
  return 0;
}

int run_weights_get(const Call& call, Console& console) {
  const std::string mirror = settings_of<MirrorChoice>(call).mirror;
  std::vector<const nn::TrainedWeights*> wanted;
  for (const std::string& name : call.words) wanted.push_back(&nn::trained_weights_of(name));
  for (const nn::TrainedWeights* weights : wanted) {
    const int status = run_download(
        console, [&](const download::Options& how) { nn::get_trained_weights(*weights, mirror, how); });
    if (status != 0) return status;
    console.print(weights->path().string() + "\n");
  }
  return 0;
}

}  // namespace lockstep::cli
