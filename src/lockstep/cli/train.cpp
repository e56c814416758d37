#include <csignal>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/bounded_ending.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/downloading.h"
#include "lockstep/cli/failure.h"
#include "lockstep/cli/report.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/trained_model.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/comm/rendezvous.h"
#include "lockstep/data/loading_line.h"
#include "lockstep/device/inventory.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/run/data_loading.h"
#include "lockstep/train/run/fit.h"
#include "lockstep/train/run/folds.h"

namespace lockstep::cli {
namespace {

// A run that was requested to stop (lockstep stop), by no signal, has done what it was to do: a launcher must
// not take it for a failure.
int status_after_stop(int signal, const Call& call) {
  if (signal == 0) return 0;
  return call.launch && call.launch->stopped_status >= 0 ? call.launch->stopped_status
                                                         : launch::kSignalStatus + signal;
}

int after_stop(const train::Result& result, const Call& call, int signal, Console& console) {
  console.note("stopped after step " + with_commas(result.steps) + "; to continue:\n  lockstep train " +
               shell_word(call.words.front()) + " --output " + shell_word(result.output.string()) +
               " --resume\n");
  return status_after_stop(signal, call);
}

std::string already_finished(const train::Result& result) {
  std::string text =
      "the run in \"" + result.output.string() + "\" is finished: " + counted(result.steps, "step");
  if (result.accuracy >= 0) text += ", accuracy " + fixed(result.accuracy, 4);
  return text + "\nweights: " + result.weights.string() + "\n";
}

bool is_cross_validation(const train::Options& options) {
  if (options.resume) return train::holds_folds(options.output);
  return options.validation_folds > 0 && options.fold == 0;
}

std::string spread_text(const char* what, const train::Spread& spread, const std::vector<double>& scores) {
  std::vector<std::string> each;
  for (const double score : scores) each.push_back(fixed(score, 4));
  return std::string(what) + " accuracy " + fixed(spread.mean, 4) + ", standard deviation " +
         fixed(spread.deviation, 4) + " (" + join(each, ", ") + ")\n";
}

std::string folds_text(const train::FoldsResult& result) {
  std::vector<double> scores, test_scores;
  for (const train::Result& run : result.runs) {
    scores.push_back(run.accuracy);
    test_scores.push_back(run.test_accuracy);
  }
  std::string text = "\n" + std::to_string(scores.size()) + " folds in " + result.output.string() + "\n" +
                     spread_text("held-out", result.accuracy, scores);
  if (result.test_accuracy.mean >= 0) text += spread_text("test", result.test_accuracy, test_scores);
  return text;
}

// Returns the last run.
train::Result train_folds(const train::TrainingRequest& request, const train::Options& options,
                          Console& console) {
  train::FoldsResult result = train::fit_folds(
      request, options, [&](int64_t fold, int64_t count, const std::filesystem::path& output) {
        if (!request.console) return;
        console.print((fold > 1 ? "\nfold " : "fold ") + std::to_string(fold) + " of " +
                      std::to_string(count) + ", in " + output.string() + "\n");
      });
  train::Result last = result.runs.back();
  last.output = result.output;
  if (last.reason == train::EndReason::stopped || !request.console) return last;
  console.print(folds_text(result));
  console.check_written();
  return last;
}

// The exit status.
int train_and_tell(const Call& call, const train::TrainingRequest& request, const train::Options& options,
                   const launch::StopSignals& signals, Console& console) {
  try {
    const bool has_folds = is_cross_validation(options);
    if (has_folds && settings_of<ReportSwitch>(call).report)
      throw Error(ErrorCode::invalid_option, "--report is of one run, and --validation-folds makes several",
                  "leave it out; then lockstep report RUN/fold-1 writes that of the first part");
    const train::Result result =
        has_folds ? train_folds(request, options, console) : train::fit(request, options);
    if (!request.console)
      return result.reason == train::EndReason::stopped ? status_after_stop(signals.signal(), call) : 0;
    if (result.reason == train::EndReason::stopped)
      return after_stop(result, call, signals.signal(), console);
    if (has_folds) return 0;
    with_context(
        [&] { return "the run is complete: \"" + result.output.string() + "\""; },
        [&] {
          if (result.reason == train::EndReason::already_finished) {
            console.print(already_finished(result));
            train::Model model;
            model.weights = result.weights;
            if (std::filesystem::exists(model.weights)) examine_weights(model, console);
          }
          if (settings_of<ReportSwitch>(call).report)
            console.print("report: " +
                          write_report({.run_folder = result.output, .options = options}, console).string() +
                          "\n");
          console.check_written();
        });
    return 0;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled || signals.signal() == 0) throw;
    console.note(failure_text(error, console.note_is_terminal() ? console.width() : 0));
    return launch::kSignalStatus + signals.signal();
  }
}

// Processes without a GPU of their own load data for those that have one.
comm::JoinedProcess join_as_process(const Call& call, const train::Options& options,
                                    std::shared_ptr<data::LoadingLine>& line, Console& console) {
  comm::Joining how = joining_of(call, console);
  how.loads =
      train::has_no_gpu_left(options, device::inspect(), call.launch->local_rank, call.launch->gpus_here);
  if (!how.loads) {
    line = std::make_shared<data::LoadingLine>();
    how.line = line->descriptor();
  }
  return comm::join_processes(*call.launch, {}, how);
}

std::string text_of_loaders(const std::vector<int64_t>& loaders) {
  return "no GPU is left for " + std::string(loaders.size() == 1 ? "process " : "processes ") +
         join_numbers(loaders, ", ") + " of the launcher; they decode images for the ranks of their machines";
}

int load_data(comm::JoinedProcess& joined, Console& console) {
  data::LoadingEnd end(joined.line.release(),
                       [process = joined.rank_process] { return ::kill(process, 0) == 0; });
  const int64_t count = train::load_for_rank(end, [&](const std::string& why) {
    console.note("lockstep: cannot load data: " + printable(why) + "\n");
  });
  console.print("decoded " + counted(count, "image") + " for rank " + std::to_string(joined.rank) + "\n");
  return 0;
}

}  // namespace

int run_train(const Call& call, Console& console) {
  const auto [options, given] = training_options(call);
  if (!call.launch) offer_pretrained(options, console);
  const bool is_first = !call.launch || call.launch->rank == 0;  // the rank that prints
  const bool told_by_progress = console.is_terminal();
  launch::StopSignals signals(
      is_first && !told_by_progress ? train::stop_notice(!call.launch) : "",
      call.launch ? launch::AtSecond::go_on : launch::AtSecond::die,
      call.launch ? launch::AtFirst::die : launch::AtFirst::stop);  // waiting for other ranks may take long
  std::shared_ptr<data::LoadingLine> line;
  comm::JoinedProcess joined =
      call.launch ? join_as_process(call, options, line, console) : comm::JoinedProcess();
  signals.stop_at_first();
  if (joined.line) return with_bounded_ending(call, [&] { return load_data(joined, console); });
  train::TrainingRequest request;
  request.comm = joined.group.get();
  request.ranks_here = call.launch ? joined.launch.local_size : 1;
  request.rank_here = call.launch ? joined.launch.local_rank : 0;
  request.needs_gpus = call.launch && joined.launch.needs_gpus;
  request.line = joined.has_loaders ? line : nullptr;
  request.loader_count = static_cast<int64_t>(joined.loaders.size());
  request.loaders = text_of_loaders(joined.loaders);
  request.folder = call.words.front();
  request.given = given;
  request.console = is_first;
  request.stop = signals.token();
  return with_bounded_ending(call, [&] { return train_and_tell(call, request, options, signals, console); });
}

}  // namespace lockstep::cli
