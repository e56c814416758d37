#include <algorithm>
#include <cmath>

#include "lockstep/base/class_figures.h"
#include "lockstep/base/counted.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/help.h"
#include "lockstep/cli/over_ranks.h"
#include "lockstep/cli/prediction_text.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/cli/trained_model.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/data/sources.h"
#include "lockstep/train/inference/held_out.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMostConfusions = 20;

std::string figure(double value) { return std::isnan(value) ? "-" : fixed(value, 4); }

std::string class_table(const std::vector<ClassFigures>& figures, const std::string& noun, int width) {
  std::vector<std::vector<std::string>> rows{{"class", noun, "right", "precision", "recall", "F1"}};
  const auto add = [&](const ClassFigures& row) {
    rows.push_back({name_cell(row.name), with_commas(row.samples), with_commas(row.right),
                    figure(row.precision), figure(row.recall), figure(row.f1)});
  };
  for (const ClassFigures& row : figures) add(row);
  add(mean_figures(figures));
  rows.back().front() = "(mean)";
  return in_columns_within(width, rows, "lrrrrr");
}

std::string confusion_matrix(const train::Evaluation& evaluation, const std::vector<std::string>& classes) {
  std::vector<std::vector<std::string>> rows{{"true \\ predicted"}};
  for (const std::string& name : classes) rows.front().push_back(name_cell(name));
  for (size_t i = 0; i < classes.size(); ++i) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(name_cell(classes[i]));
    for (const int64_t count : evaluation.confusion[i])
      row.push_back(count == 0 ? "." : std::to_string(count));
  }
  return in_columns(rows, "l" + std::string(classes.size(), 'r'));
}

std::string most_frequent_confusions(const train::Evaluation& evaluation,
                                     const std::vector<std::string>& classes, const std::string& noun) {
  std::vector<std::vector<std::string>> rows{{noun, "true", "predicted"}};
  for (const Confusion& one : confusions(evaluation.confusion)) {
    if (rows.size() > kMostConfusions) break;
    rows.push_back({with_commas(one.count), name_cell(classes[one.truth]), name_cell(classes[one.answer])});
  }
  return in_columns(rows, "rll");
}

bool fits(const std::string& text, int width) {
  const std::vector<std::string> lines = split(text, '\n');
  return std::all_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return width_of(line) <= width; });
}

// Samples that the network was trained on do not measure how well it generalizes.
std::string training_note(const train::Model& model, const data::Dataset& dataset) {
  const train::TrainedOn trained = train::trained_on(model, dataset);
  std::string note = train::trained_on_words(trained, dataset.size(), "them");
  if (trained.count > 0 && trained.held_out > 0)
    note += "; lockstep report " + shell_word(model.weights.parent_path().string()) + " uses the other " +
            with_commas(trained.held_out);
  return note;
}

double macro_f1(const train::Evaluation& evaluation, const std::vector<std::string>& classes) {
  return mean_figures(class_figures(evaluation.confusion, classes)).f1;
}

std::string evaluation_text(const train::Evaluation& evaluation, const train::Model& model,
                            const std::string& note, const Console& console) {
  const std::string noun = noun_of(model);
  const std::vector<std::string>& classes = model.classes;
  std::string text = counted(evaluation.samples, sample_word(model)) + ", loss " + fixed(evaluation.loss, 4) +
                     ", accuracy " + fixed(evaluation.accuracy, 4);
  if (evaluation.top5_accuracy) text += ", top-5 accuracy " + fixed(*evaluation.top5_accuracy, 4);
  text += ", macro F1 " + figure(macro_f1(evaluation, classes));
  text = sentence(text, console.table_width());
  if (!note.empty()) text += sentence(note, console.table_width());
  text += "\n";
  text += class_table(class_figures(evaluation.confusion, classes), noun, console.table_width());
  const std::string matrix = confusion_matrix(evaluation, classes);
  if (fits(matrix, console.width())) return text + "\nconfusion matrix:\n" + matrix;
  return text + "\nmost frequent confusions (--json has all of them):\n" +
         most_frequent_confusions(evaluation, classes, noun);
}

std::string mistakes_text(const std::vector<train::Prediction>& mistakes, const train::Model& model,
                          const MistakesOutput& output) {
  const size_t shown = std::min(mistakes.size(), static_cast<size_t>(output.mistakes_shown));
  if (shown == 0) return "";
  std::vector<std::vector<std::string>> rows{{"score", "predicted", "true", "score of true", "file"}};
  for (size_t i = 0; i < shown; ++i) {
    const train::Prediction& one = mistakes[i];
    const auto score = [&](int64_t label) { return fixed(one.scores[static_cast<size_t>(label)], 4); };
    rows.push_back({score(one.label), name_cell(class_name(model.classes, one.label)),
                    name_cell(class_name(model.classes, one.target)), score(one.target), one.source});
  }
  const std::string all = shown == mistakes.size()  ? ""
                          : output.mistakes.empty() ? " (--mistakes FILE writes all of them)"
                                                    : " (all of them are in " + output.mistakes + ")";
  return "\n" + counted(std::ssize(mistakes), "misclassified " + sample_word(model)) + ", worst first" + all +
         ":\n" + in_columns(rows, "rllrl");
}

Json number_or_null(double value) { return std::isnan(value) ? Json(nullptr) : Json(value); }

Json evaluation_json(const train::Evaluation& evaluation, const std::vector<train::Prediction>& mistakes,
                     const train::Model& model) {
  Json json{{"weights", model.weights.string()},
            {"samples", evaluation.samples},
            {"loss", evaluation.loss},
            {"accuracy", evaluation.accuracy},
            {"top5_accuracy", evaluation.top5_accuracy ? Json(*evaluation.top5_accuracy) : Json(nullptr)},
            {"macro_f1", number_or_null(macro_f1(evaluation, model.classes))}};
  Json& classes = json["classes"] = Json::array();
  for (const ClassFigures& row : class_figures(evaluation.confusion, model.classes)) {
    classes.push_back({{"name", row.name},
                       {"samples", row.samples},
                       {"right", row.right},
                       {"predicted", row.predicted},
                       {"precision", number_or_null(row.precision)},
                       {"recall", number_or_null(row.recall)},
                       {"f1", number_or_null(row.f1)}});
  }
  json["confusion"] = evaluation.confusion;
  json["mistakes"] = Json::array();
  for (const train::Prediction& one : mistakes) json["mistakes"].push_back(as_json(one, model.classes));
  return json;
}

}  // namespace

int run_evaluate(const Call& call, Console& console) {
  const train::Options options = inference_options(call);
  const auto output = settings_of<MistakesOutput>(call);
  return over_ranks(call, console, [&](comm::Communicator* group) {
    train::Model model = model_for_scores(call, open_model(call, console, group), options);
    const data::Source source = data::open_source(call.words[1], {.labels = labels_of(call, model),
                                                                  .on_bad_sample = options.on_bad_sample,
                                                                  .classes = model.classes,
                                                                  .test_part = true});
    note_part(source, console, group);
    const data::Dataset dataset = readable_samples(source, model, options, console, group);
    const std::vector<train::Prediction> predictions =
        predict(call, console, take_weights(model), dataset, options, group);
    if (!leads(group)) return 0;
    const train::Evaluation evaluation = train::evaluate(predictions, model.classes);
    std::vector<train::Prediction> mistakes;
    for (const size_t place : train::mistakes(predictions)) mistakes.push_back(predictions[place]);
    if (!output.mistakes.empty()) write_file_atomic(output.mistakes, as_csv(mistakes, model.classes));
    if (settings_of<JsonOutput>(call).json) {
      console.print(json_text(evaluation_json(evaluation, mistakes, model), 2) + "\n");
    } else {
      console.print(evaluation_text(evaluation, model, training_note(model, dataset), console) +
                    mistakes_text(mistakes, model, output));
    }
    return 0;
  });
}

}  // namespace lockstep::cli
