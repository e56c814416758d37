#include <cctype>
#include <cerrno>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/layer_file.h"
#include "lockstep/cli/over_ranks.h"
#include "lockstep/cli/image_files.h"
#include "lockstep/cli/prediction_text.h"
#include "lockstep/cli/progress_line.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/cli/trained_model.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/sources.h"
#include "lockstep/io/address.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::cli {
namespace {

/// Datasets in the order of the words: neighbouring image files together, each other path by itself.
std::vector<data::Dataset> open_inputs(const Call& call, const train::Model& model,
                                       const train::Options& options, Console& console,
                                       const comm::Communicator* group) {
  std::vector<data::Dataset> inputs;
  std::vector<std::filesystem::path> files;
  const auto add = [&](const data::Source& source) {
    inputs.push_back(readable_samples(source, model, options, console, group));
  };
  const auto add_files = [&] {
    if (!files.empty())
      add({.dataset = image_files(std::exchange(files, {}), model.classes),
           .kind = "image files",
           .skipped = {}});
  };
  for (size_t i = 1; i < call.words.size(); ++i) {
    const std::filesystem::path path = call.words[i];
    if (data::is_image_name(path.string()) && !std::filesystem::is_directory(path) &&
        !io::is_address(path.string())) {
      if (!std::filesystem::exists(path)) throw errno_error(ENOENT, "open", path.string());
      files.push_back(path);
      continue;
    }
    add_files();
    const data::Source source = data::open_source(path, {.labels = labels_of(call, model),
                                                         .on_bad_sample = options.on_bad_sample,
                                                         .classes = model.classes,
                                                         .unlabelled = true,
                                                         .test_part = true});
    note_part(source, console, group);
    add(source);
  }
  add_files();
  return inputs;
}

// One prediction per line, so that the file can also be read line by line.
std::string as_json_list(const std::vector<train::Prediction>& predictions,
                         const std::vector<std::string>& classes, int64_t top) {
  std::string text = "[";
  for (const train::Prediction& one : predictions) {
    text += (text.size() > 1 ? ",\n " : "\n ") + json_text(as_json(one, classes, top), -1);
  }
  return text + "\n]\n";
}

void print_or_write(const std::string& text, const std::string& output, Console& console) {
  if (output.empty()) {
    console.print(text);
  } else {
    write_file_atomic(output, text);
  }
}

void write_labels(const Call& call, train::Model model, const std::vector<data::Dataset>& inputs,
                  const train::Options& options, const PredictionOutput& output, Console& console,
                  comm::Communicator* group) {
  std::vector<train::Prediction> predictions;
  for (const data::Dataset& input : inputs) {
    std::vector<train::Prediction> some =
        predict(call, console, &input == &inputs.back() ? take_weights(model) : model, input, options, group);
    predictions.insert(predictions.end(), std::make_move_iterator(some.begin()),
                       std::make_move_iterator(some.end()));
  }
  if (!leads(group)) return;
  const bool json = output.format == PredictionFormat::json ||
                    (output.format == PredictionFormat::auto_ && output.output.ends_with(".json"));
  print_or_write(json ? as_json_list(predictions, model.classes, output.top)
                      : as_csv(predictions, model.classes, output.top),
                 output.output, console);
}

bool is_layer_csv(const PredictionOutput& output) {
  return output.format == PredictionFormat::csv ||
         (output.format == PredictionFormat::auto_ && output.output.ends_with(".csv"));
}

// Before work that may take hours.
void check_output(const PredictionOutput& output) {
  if (output.layer.empty()) {
    if (output.format == PredictionFormat::safetensors)
      throw Error(ErrorCode::invalid_option, "--format safetensors is for what a layer gives",
                  "name it: --layer NAME");
    return;
  }
  if (output.top > 0)
    throw Error(ErrorCode::invalid_option, "--top is for labels, not for what a layer gives",
                "leave out one of them");
  if (output.format == PredictionFormat::json)
    throw Error(ErrorCode::invalid_option, "--layer is not written as JSON", "--format safetensors or csv");
  if (!is_layer_csv(output) && output.output.empty())
    throw Error(ErrorCode::invalid_option, "cannot write a safetensors file to standard output",
                "add --output FILE, or --format csv");
  const std::string ending = std::filesystem::path(output.output).extension().string();
  const bool names_format = ending.size() > 1 && std::isalpha(static_cast<unsigned char>(ending[1])) != 0;
  if (output.format == PredictionFormat::auto_ && names_format && ending != ".csv" &&
      ending != ".safetensors")
    throw Error(ErrorCode::invalid_option,
                "--layer has no format for a file that ends in " + ending + ": " + quote(output.output),
                "--output FILE.safetensors or FILE.csv, or --format safetensors or csv");
}

void write_layer(const LayerWork& asked, const PredictionOutput& output, Console& console) {
  const bool csv = is_layer_csv(output);
  const int64_t samples =
      std::accumulate(asked.inputs.begin(), asked.inputs.end(), int64_t{0},
                      [](int64_t count, const data::Dataset& input) { return count + input.size(); });
  std::optional<ProgressLine> line;
  LayerWork work = asked;
  if (leads(work.group)) {
    line.emplace(console, noun_of(work.model), samples);
    work.done = [&](int64_t count) { line->add(count); };
  }
  if (!csv) return write_layer_file(output.output, work);
  const std::string text = layer_csv(work);
  if (leads(work.group)) print_or_write(text, output.output, console);
}

}  // namespace

int run_predict(const Call& call, Console& console) {
  const train::Options options = inference_options(call);
  auto output = settings_of<PredictionOutput>(call);
  if (settings_of<JsonOutput>(call).json) {
    if (output.format != PredictionFormat::auto_ && output.format != PredictionFormat::json)
      throw Error(ErrorCode::invalid_option,
                  "--json and --format " + field_text(output, "format") + " are two formats",
                  "leave out one of them");
    output.format = PredictionFormat::json;
  }
  check_output(output);
  return over_ranks(call, console, [&](comm::Communicator* group) {
    train::Model model = open_model(call, console, group);
    if (output.layer.empty()) model = model_for_scores(call, std::move(model), options);
    const std::vector<data::Dataset> inputs = open_inputs(call, model, options, console, group);
    if (output.layer.empty()) {
      write_labels(call, std::move(model), inputs, options, output, console, group);
    } else {
      write_layer({.model = std::move(model),
                   .layer = output.layer,
                   .inputs = inputs,
                   .options = options,
                   .group = group,
                   .rank_here = call.launch ? call.launch->local_rank : 0},
                  output, console);
    }
    return 0;
  });
}

}  // namespace lockstep::cli
