#include "lockstep/cli/report.h"

#include <algorithm>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/prediction_text.h"
#include "lockstep/cli/progress_line.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/cli/sweep_report.h"
#include "lockstep/cli/trained_model.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/cli/weights_difference.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/web_image.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/not_a_run.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/record/state.h"
#include "lockstep/train/inference/held_out.h"
#include "lockstep/train/inference/predict.h"
#include "lockstep/view/report.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kImageSide = 240;  // pixels; the page shows it at half this size, for high-density screens
constexpr int64_t kTinySide = 64;

train::HeldOut samples_for(const Judging& judging, const view::Report& report, const train::Model& model,
                           Console& console) {
  const auto& [run_folder, judged_by, asked, options, call] = judging;
  if (judged_by.empty()) return train::held_out_of_run(run_folder, report.events, model);
  const data::Source source = data::open_source(judged_by, {.labels = labels_of(call, model),
                                                            .on_bad_sample = options.on_bad_sample,
                                                            .classes = model.classes,
                                                            .test_part = true});
  const data::Dataset dataset = readable_samples(source, model, options, console);
  train::HeldOut samples{dataset, counted(dataset.size(), sample_word(model)) + " of " + judged_by};
  const train::TrainedOn trained = train::trained_on(model, dataset);
  std::string words =
      train::trained_on_words(trained, dataset.size(), "these " + std::string(noun_of(model)));
  if (trained.count > 0 && trained.unknown.empty())
    words +=
        ", so the figures do not show how well it does on new ones; without a FOLDER the report uses those "
        "that it held out";
  if (!words.empty()) samples.warnings.push_back(words);
  return samples;
}

view::ReportMistake mistake_of(const train::Prediction& prediction, const data::Dataset& dataset,
                               int64_t index, const train::Model& model) {
  view::ReportMistake mistake{.source = prediction.source,
                              .truth = class_name(model.classes, prediction.target),
                              .answer = class_name(model.classes, prediction.label),
                              .score = prediction.scores[static_cast<size_t>(prediction.label)],
                              .truth_score = prediction.scores[static_cast<size_t>(prediction.target)],
                              .image_type = "",
                              .image = ""};
  if (dataset.store().kind() != data::SampleKind::image) return mistake;
  data::WebImage image = data::web_image(dataset, index, kImageSide);
  mistake.image_type = std::move(image.type);
  mistake.image = std::move(image.bytes);
  mistake.tiny = std::max(image.height, image.width) <= kTinySide;
  return mistake;
}

std::vector<train::Prediction> predict(const data::Dataset& dataset, const train::Model& model,
                                       const train::Options& options, Console& console) {
  ProgressLine line(console, noun_of(model), dataset.size());
  return train::predict(model, dataset, options, [&](int64_t count) { line.add(count); });
}

view::Judgement judge(const train::HeldOut& held_out, const train::Model& model,
                      const std::vector<train::Prediction>& predictions, int64_t images) {
  const train::Evaluation evaluation = train::evaluate(predictions, model.classes);
  const std::vector<size_t> mistakes = train::mistakes(predictions);
  view::Judgement judgement{.samples = held_out.words,
                            .noun = noun_of(model),
                            .accuracy = evaluation.accuracy,
                            .loss = evaluation.loss,
                            .top5_accuracy = evaluation.top5_accuracy,
                            .classes = model.classes,
                            .confusion = evaluation.confusion,
                            .mistake_count = static_cast<int64_t>(mistakes.size()),
                            .mistakes = {},
                            .all_mistakes = ""};
  for (size_t i = 0; i < std::min(mistakes.size(), static_cast<size_t>(images)); ++i) {
    judgement.mistakes.push_back(
        mistake_of(predictions[mistakes[i]], held_out.dataset, static_cast<int64_t>(mistakes[i]), model));
  }
  return judgement;
}

// The rest of the page is shown even if some data are missing.
bool may_be_missing(const Error& error) {
  return error.code() == ErrorCode::not_found || error.code() == ErrorCode::invalid_option;
}

}  // namespace

void add_judgement(view::Report& report, const Judging& judging, Console& console) {
  const auto& [run_folder, judged_by, asked, options, call] = judging;
  try {
    train::Model model = train::model_of_run(run_folder, asked.weights);
    examine_weights(model, console);
    report.weights = model.weights.string();
    report.weights_hash = recorded_hash(model.weights, model.state);
    if (report.weights_hash.empty()) report.weights_hash = as_hex(weights_hash(model.state));
    const train::HeldOut held_out = samples_for(judging, report, model, console);
    report.warnings = held_out.warnings;
    for (const std::string& warning : held_out.warnings) console.note("lockstep: " + warning + "\n");
    report.judgement =
        judge(held_out, model, predict(held_out.dataset, model, options, console), asked.images);
    report.judged = true;
    if (!judged_by.empty())
      report.judgement.all_mistakes = "lockstep evaluate " + shell_word(run_folder.string()) + " " +
                                      shell_word(judged_by) + " --mistakes FILE";
  } catch (const Error& error) {
    if (!judged_by.empty() || !may_be_missing(error)) throw;
    report.not_judged = error.message();
    report.kept = kept_confusion(run_folder, console);
    console.note(std::string("lockstep: ") +
                 (report.kept
                      ? "the report has the confusion matrix of the best validation, and no mistakes: "
                      : "cannot show confusions and mistakes in the report: ") +
                 error.message() + (error.hint().empty() ? "" : "\n  hint: " + error.hint()) + "\n");
  }
}

std::optional<record::KeptConfusion> kept_confusion(const std::filesystem::path& run_folder,
                                                    Console& console) {
  // The folder of a trial of any program may have such a file of the program's own.
  if (!record::holds_run(run_folder)) return std::nullopt;
  try {
    return record::read_confusion(run_folder);
  } catch (const Error& error) {
    console.note("lockstep: the report leaves out a confusion matrix: " + printable(error.message()) + "\n");
    return std::nullopt;
  }
}

std::filesystem::path write_report(const Judging& judging, Console& console) {
  const auto& [run_folder, judged_by, asked, options, call] = judging;
  if (asked.weights != "last" && asked.weights != "best")
    throw Error(ErrorCode::invalid_option, "option --weights cannot be \"" + asked.weights +
                                               "\": for a run folder it must be last or best");
  const record::RunPaths paths{run_folder};
  if (!record::holds_run(run_folder)) throw record::not_a_run(run_folder);
  view::Report report;
  report.run = run_folder.string();
  report.events = record::read_events(run_folder);
  add_judgement(report, judging, console);
  const std::filesystem::path file =
      asked.output.empty() ? paths.report() : std::filesystem::path(asked.output);
  write_file_atomic(file, view::report_page(report));
  return file;
}

int run_report(const Call& call, Console& console) {
  const train::Options options = inference_options(call);
  const std::string judged_by = call.words.size() > 1 ? call.words[1] : "";
  const auto asked = settings_of<ReportOptions>(call);
  if (is_sweep(call.words.front())) {
    if (!judged_by.empty())
      throw Error(ErrorCode::invalid_option, "the report of a sweep takes no FOLDER",
                  "lockstep report " + shell_word(call.words.front() + "/trials/0000") + " " +
                      shell_word(judged_by) + " judges one trial");
    console.print("report: " + write_sweep_report(call, options, console).string() + "\n");
    return 0;
  }
  console.print("report: " +
                write_report({call.words.front(), judged_by, asked, options, call}, console).string() + "\n");
  return 0;
}

}  // namespace lockstep::cli
