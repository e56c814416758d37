#include <array>
#include <iterator>
#include <utility>

#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/over_ranks.h"
#include "lockstep/cli/picture_files.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/cli/trained_model.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/sources.h"
#include "lockstep/device/memory.h"
#include "lockstep/io/address.h"
#include "lockstep/train/predict.h"

namespace lockstep::cli {
namespace {

enum class Format { auto_, csv, json };
constexpr std::array<const char*, 3> enum_names(Format) { return {"auto", "csv", "json"}; }

struct PredictionOutput {
  std::string output;
  Format format = Format::auto_;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Output");
    field("output", self.output, "write to this file; empty: standard output");
    field("format", self.format, "auto: JSON when --output ends in .json, else CSV");
  };
};

/// In the order of the words: neighbouring picture files together, each other path by itself.
std::vector<data::Source> open_inputs(const Call& call, const train::Model& model, const train::Options& options) {
  std::vector<data::Source> inputs;
  std::vector<std::filesystem::path> files;
  const auto add_files = [&] {
    if (!files.empty()) inputs.push_back({.dataset = picture_files(std::exchange(files, {}), model.classes), .kind = "picture files", .skipped = {}});
  };
  for (size_t i = 1; i < call.words.size(); ++i) {
    const std::filesystem::path path = call.words[i];
    if (data::is_picture_name(path.string()) && !std::filesystem::is_directory(path) && !io::is_address(path.string())) {
      files.push_back(path);
      continue;
    }
    add_files();
    inputs.push_back(data::open_source(path, {.labels = options.labels, .on_bad_sample = options.on_bad_sample, .classes = model.classes, .unlabelled = true}));
  }
  add_files();
  return inputs;
}

// RFC 4180.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + "\"";
}

std::string class_name(const std::vector<std::string>& classes, int64_t label) { return label < 0 ? "" : classes[static_cast<size_t>(label)]; }

std::string as_csv(const std::vector<train::Prediction>& predictions, const std::vector<std::string>& classes) {
  std::string text = "file,label,score,target";
  for (const std::string& name : classes) text += "," + csv_cell("score_" + name);
  text += "\n";
  for (const train::Prediction& one : predictions) {
    text += csv_cell(one.source) + "," + csv_cell(class_name(classes, one.label)) + "," + shortest(one.scores[static_cast<size_t>(one.label)]) + "," +
            csv_cell(class_name(classes, one.target));
    for (const double score : one.scores) text += "," + shortest(score);
    text += "\n";
  }
  return text;
}

Json as_json(const train::Prediction& one, const std::vector<std::string>& classes) {
  Json json{{"file", one.source}, {"label", class_name(classes, one.label)}, {"score", one.scores[static_cast<size_t>(one.label)]}, {"target", nullptr}};
  if (one.target >= 0) json["target"] = class_name(classes, one.target);
  for (size_t i = 0; i < classes.size(); ++i) json["scores"][classes[i]] = one.scores[i];
  return json;
}

// One prediction a line, so that the file can be read line by line too. Names that are no UTF-8 get replacement characters.
std::string as_json_list(const std::vector<train::Prediction>& predictions, const std::vector<std::string>& classes) {
  std::string text = "[";
  for (const train::Prediction& one : predictions) {
    text += (text.size() > 1 ? ",\n " : "\n ") + as_json(one, classes).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return text + "\n]\n";
}

void give(const std::vector<train::Prediction>& predictions, const std::vector<std::string>& classes, const PredictionOutput& output, Console& console) {
  const bool json = output.format == Format::json || (output.format == Format::auto_ && output.output.ends_with(".json"));
  const std::string text = json ? as_json_list(predictions, classes) : as_csv(predictions, classes);
  output.output.empty() ? console.print(text) : write_file_atomic(output.output, text);
}

}  // namespace

std::vector<FieldInfo> predict_fields() { return model_fields() + inference_fields() + fields_of<PredictionOutput>() + fields_of<RankSettings>(); }

int run_predict(const Call& call, Console& console) {
  const train::Options options = inference_options(call);
  device::keep_freed_memory();
  return over_ranks(call, [&](comm::Communicator* group) {
    const train::Model model = open_model(call);
    std::vector<train::Prediction> predictions;
    for (const data::Source& input : open_inputs(call, model, options)) {
      std::vector<train::Prediction> some = Inference{model, options, group}.predict(input, console);
      predictions.insert(predictions.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
    }
    if (leads(group)) give(predictions, model.classes, settings_of<PredictionOutput>(call), console);
    return 0;
  });
}

}  // namespace lockstep::cli
