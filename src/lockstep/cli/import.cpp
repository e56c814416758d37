#include <filesystem>
#include <system_error>
#include <tuple>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/surgery.h"
#include "lockstep/onnx/import_onnx.h"
#include "lockstep/train/options/image_size.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kMostModelBytes = int64_t{1} << 31;  // protobuf's limit

std::filesystem::path output_for(const std::filesystem::path& file, const std::string& asked) {
  if (asked.empty()) return file.filename().replace_extension(".json");
  if (asked.ends_with(".json")) return asked;
  throw Error(ErrorCode::invalid_option,
              "option --output cannot be \"" + asked + "\": it must name a layer graph, NAME.json");
}

void refuse_existing(const std::filesystem::path& path) {
  if (std::filesystem::exists(path))
    throw Error(ErrorCode::invalid_option, "\"" + path.string() + "\" exists already, and is not overwritten",
                "--output NAME.json, or remove it");
}

std::string next_command(const onnx::TrainedNetwork& trained, const std::filesystem::path& graph,
                         const std::filesystem::path& weights, const std::filesystem::path& classes) {
  const bool predicts = trained.input.time_steps == 0;
  const std::string command = predicts ? "lockstep predict " + shell_word(graph.string()) + " IMAGES"
                                       : "lockstep train FOLDER --network " + shell_word(graph.string());
  return command + " --weights " + shell_word(weights.string()) +
         (predicts && !trained.classes.empty() ? " --classes " + shell_word(classes.string()) : "") +
         (nn::expected_input(trained.network).contains("normalize") ? "" : " --normalize ...");
}

}  // namespace

int run_import(const Call& call, Console& console) {
  const auto settings = settings_of<ImportSettings>(call);
  const std::filesystem::path file = call.words.front();
  const std::filesystem::path graph = output_for(file, settings.output);
  std::filesystem::path weights = graph, classes = graph;
  weights.replace_extension(".safetensors");
  classes.replace_extension(".classes.txt");
  for (const auto& path : {graph, weights, classes}) refuse_existing(path);
  onnx::ImportOptions options{.name = file.string(), .folder = file.parent_path()};
  if (options.folder.empty()) options.folder = ".";
  if (settings.image_size != "auto")
    std::tie(options.height, options.width) = train::parse_size("image-size", settings.image_size);
  const onnx::Imported imported = onnx::import_onnx(read_file(file, kMostModelBytes), options);
  const onnx::TrainedNetwork& trained = imported.trained;
  const auto table = nn::inspect_network(trained.network, trained.input);
  const std::string files = trained.classes.empty()
                                ? graph.string() + " and " + weights.string()
                                : graph.string() + ", " + weights.string() + " and " + classes.string();
  std::vector<std::filesystem::path> written;  // not by another import at the same time
  try {
    nn::write_safetensors_atomic(weights, trained.state);
    written.push_back(weights);
    write_file_atomic(graph, trained.network.spec().dump(2) + "\n");
    written.push_back(graph);
    if (!trained.classes.empty()) {
      write_file_atomic(classes, join(trained.classes, "\n") + "\n");
      written.push_back(classes);
    }
    for (const std::string& note : imported.notes) console.note("note: " + printable(note) + "\n");
    console.print(files + ": " + nn::network_totals_text(table) +
                  "next: " + next_command(trained, graph, weights, classes) + "\n");
  } catch (...) {
    // The next try would refuse what is there of this one.
    std::error_code ignored;
    for (const auto& path : written) std::filesystem::remove(path, ignored);
    throw;
  }
  return 0;
}

}  // namespace lockstep::cli
