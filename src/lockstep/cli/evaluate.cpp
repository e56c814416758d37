#include <algorithm>

#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/over_ranks.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/cli/trained_model.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/data/sources.h"
#include "lockstep/device/memory.h"
#include "lockstep/train/predict.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMostConfusions = 20;

struct ClassFigures {
  std::string name;
  int64_t samples = 0;
  int64_t right = 0;
  int64_t predicted = 0;
};

std::vector<ClassFigures> figures_by_class(const train::Evaluation& evaluation, const std::vector<std::string>& classes) {
  std::vector<ClassFigures> figures;
  for (size_t i = 0; i < classes.size(); ++i) {
    ClassFigures& row = figures.emplace_back();
    row.name = classes[i];
    row.right = evaluation.confusion[i][i];
    for (size_t j = 0; j < classes.size(); ++j) {
      row.samples += evaluation.confusion[i][j];
      row.predicted += evaluation.confusion[j][i];
    }
  }
  return figures;
}

std::string share(int64_t part, int64_t whole) { return whole == 0 ? "-" : fixed(static_cast<double>(part) / static_cast<double>(whole), 4); }

std::string class_table(const std::vector<ClassFigures>& figures, const std::string& noun) {
  std::vector<std::vector<std::string>> rows{{"class", noun, "right", "recall", "precision"}};
  for (const ClassFigures& row : figures) {
    rows.push_back({row.name, with_commas(row.samples), with_commas(row.right), share(row.right, row.samples), share(row.right, row.predicted)});
  }
  return in_columns(rows, "lrrrr");
}

std::string confusion_matrix(const train::Evaluation& evaluation, const std::vector<std::string>& classes) {
  std::vector<std::vector<std::string>> rows{{"true \\ predicted"}};
  for (const std::string& name : classes) rows.front().push_back(name);
  for (size_t i = 0; i < classes.size(); ++i) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(classes[i]);
    for (const int64_t count : evaluation.confusion[i]) row.push_back(count == 0 ? "." : std::to_string(count));
  }
  return in_columns(rows, "l" + std::string(classes.size(), 'r'));
}

std::string most_frequent_confusions(const train::Evaluation& evaluation, const std::vector<std::string>& classes, const std::string& noun) {
  struct Confusion {
    int64_t count = 0;
    size_t truth = 0;
    size_t predicted = 0;
  };
  std::vector<Confusion> confusions;
  for (size_t i = 0; i < classes.size(); ++i) {
    for (size_t j = 0; j < classes.size(); ++j) {
      if (i != j && evaluation.confusion[i][j] > 0) confusions.push_back({evaluation.confusion[i][j], i, j});
    }
  }
  std::stable_sort(confusions.begin(), confusions.end(), [](const Confusion& a, const Confusion& b) { return a.count > b.count; });
  std::vector<std::vector<std::string>> rows{{noun, "true", "predicted"}};
  for (const Confusion& one : confusions) {
    if (rows.size() > kMostConfusions) break;
    rows.push_back({with_commas(one.count), classes[one.truth], classes[one.predicted]});
  }
  return in_columns(rows, "rll");
}

bool fits(const std::string& text, int width) {
  const std::vector<std::string> lines = split(text, '\n');
  return std::all_of(lines.begin(), lines.end(), [&](const std::string& line) { return static_cast<int>(line.size()) <= width; });
}

std::string as_text(const train::Evaluation& evaluation, const train::Model& model, int width) {
  const std::string noun = model.input.steps > 0 ? "sequences" : "images";
  const std::vector<std::string>& classes = model.classes;
  std::string text = with_commas(evaluation.samples) + " " + noun + ", loss " + fixed(evaluation.loss, 4) + ", accuracy " + fixed(evaluation.accuracy, 4) + "\n\n";
  text += class_table(figures_by_class(evaluation, classes), noun);
  const std::string matrix = confusion_matrix(evaluation, classes);
  if (fits(matrix, width)) return text + "\nconfusion matrix:\n" + matrix;
  return text + "\nmost frequent confusions (--json has all of them):\n" + most_frequent_confusions(evaluation, classes, noun);
}

Json as_json(const train::Evaluation& evaluation, const train::Model& model) {
  Json json{{"weights", model.weights.string()}, {"samples", evaluation.samples}, {"loss", evaluation.loss}, {"accuracy", evaluation.accuracy}};
  Json& classes = json["classes"] = Json::array();
  for (const ClassFigures& row : figures_by_class(evaluation, model.classes)) {
    classes.push_back({{"name", row.name}, {"samples", row.samples}, {"right", row.right}, {"predicted", row.predicted}});
  }
  json["confusion"] = evaluation.confusion;
  return json;
}

}  // namespace

std::vector<FieldInfo> evaluate_fields() { return model_fields() + inference_fields() + fields_of<JsonOutput>() + fields_of<RankSettings>(); }

int run_evaluate(const Call& call, Console& console) {
  const train::Options options = inference_options(call);
  device::keep_freed_memory();
  return over_ranks(call, [&](comm::Communicator* group) {
    const train::Model model = open_model(call);
    const data::Source source = data::open_source(call.words[1], {.labels = options.labels, .on_bad_sample = options.on_bad_sample, .classes = model.classes});
    const auto predictions = Inference{model, options, group}.predict(source, console);
    if (!leads(group)) return 0;
    const train::Evaluation evaluation = train::evaluate(predictions, model.classes);
    const bool json = settings_of<JsonOutput>(call).json;
    console.print(json ? as_json(evaluation, model).dump(2) + "\n" : as_text(evaluation, model, console.width()));
    return 0;
  });
}

}  // namespace lockstep::cli
