// Runs one training with several numbers of workers, and compares the curves, rates and weights.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/train/run/fit.h"
#include "lockstep/view/scaling.h"
#include "lockstep/view/trials.h"

namespace lockstep::cli {
namespace {

std::string name_of(int64_t workers) { return counted(workers, "worker"); }

struct Finished {
  view::ScalingRun run;
  train::Result result;
};

class ScalingBench {
 public:
  ScalingBench(const Call& call, Console& console)
      : console_(console),
        asked_(settings_of<ScalingOptions>(call)),
        folder_(call.words.front()),
        signals_("stopping; complete runs are drawn") {
    Call of_runs = call;
    std::erase_if(of_runs.settings, [](const Setting& setting) { return setting.name == "workers"; });
    options_ = training_options(of_runs).options;
    if (options_.resume || options_.max_time > 0)
      throw Error(ErrorCode::invalid_option,
                  "bench scaling does not accept --resume and --max-time, because its runs train all steps",
                  "remove them from --config");
    if (asked_.workers.empty())
      throw Error(ErrorCode::invalid_option, "option --workers is empty", "for example --workers 1,2,4");
    std::sort(asked_.workers.begin(), asked_.workers.end());
    asked_.workers.erase(std::unique(asked_.workers.begin(), asked_.workers.end()), asked_.workers.end());
  }

  int run() {
    if (std::filesystem::exists(options_.output) && !std::filesystem::is_empty(options_.output)) {
      throw Error(ErrorCode::invalid_option, "\"" + options_.output + "\" is not empty",
                  "name another --output");
    }
    const train::Plan plan = plan_first();
    const record::RunFolder output = options_.output.empty() ? record::RunFolder::create_numbered("scaling")
                                                             : record::RunFolder::create(options_.output);
    output_ = output.paths().folder;
    for (const int64_t workers : asked_.workers) {
      if (!train_with(workers)) break;
      write(plan);
    }
    console_.print(finished_.empty()
                       ? ""
                       : "\n" + table(console_.table_width()) + "\nwritten to " + output_.string() +
                             ": scaling.svg, scaling.csv, scaling.txt, and each run in workers-N\n");
    if (signals_.signal() != 0) return launch::kSignalStatus + signals_.signal();
    return same_weights() || weights_follow_workers() ? 0 : 1;
  }

 private:
  // Options that would depend on the workers, on free memory or on a trial's outcome are taken from the first
  // run for all runs.
  train::Plan plan_first() {
    train::TrainingRequest request;
    request.folder = folder_;
    options_.workers = asked_.workers.front();
    if (options_.cache == "auto")
      options_.cache = "off";  // or later runs would profit from what the first one stores
    train::Plan plan = train::plan(request, options_);
    if (!weights_follow_workers()) options_.shards = plan.step.shards;
    const bool averages = options_.exchange == train::ExchangeKind::average;
    if (options_.mini_batch_size.is_auto())
      options_.mini_batch_size =
          averages ? plan.step.mini_batch_size / plan.step.shards : plan.step.mini_batch_size;
    options_.precision = plan.step.precision;
    if (plan.network.frozen_layers > 0)
      options_.keep_features =
          plan.network.keep_features ? train::KeepFeatures::always : train::KeepFeatures::never;
    cores_ = std::max<int64_t>(1, plan.machine.cores);
    shards_ = plan.step.shards;
    return plan;
  }

  bool deals_by_workers() const {
    return options_.sample_order != data::SampleOrder::lockstep &&
           options_.exchange != train::ExchangeKind::average;
  }
  bool weights_follow_workers() const {
    return options_.scale_with_workers != train::ScaleWithWorkers::none || deals_by_workers();
  }

  // False when the user stopped the run.
  bool train_with(int64_t workers) {
    console_.print(name_of(workers) + ", run " + std::to_string(finished_.size() + 1) + " of " +
                   std::to_string(asked_.workers.size()) + time_left(workers) + "\n");
    view::ScalingRun run(workers);
    train::Result result;
    {
      view::Trials trials(stdout);
      std::mutex mutex;
      train::TrainingRequest request;
      request.folder = folder_;
      request.stop = signals_.token();
      request.listener = [&](const record::Event& event) {
        const std::lock_guard lock(mutex);
        run.add(event);
        trials.show(name_of(workers), event);
      };
      train::Options options = options_;
      options.workers = workers;
      options.output = (output_ / ("workers-" + std::to_string(workers))).string();
      result = train::fit(request, options);
    }
    if (result.reason == train::EndReason::stopped) return false;
    finished_.push_back({std::move(run), result});
    return true;
  }

  double speed_of(int64_t workers) const { return static_cast<double>(std::min({workers, cores_, shards_})); }

  // Estimated from the last run, as if only the number of cores counted.
  std::string time_left(int64_t workers) const {
    if (finished_.empty()) return "";
    const Finished& last = finished_.back();
    double seconds = 0;
    for (const int64_t count : asked_.workers) {
      if (count >= workers) seconds += last.run.seconds() * speed_of(last.run.workers()) / speed_of(count);
    }
    return "; about " + as_duration(std::max(1.0, std::round(seconds))) + " left in total";
  }

  bool same_weights() const {
    return std::all_of(finished_.begin(), finished_.end(), [&](const Finished& one) {
      return one.run.weights() == finished_.front().run.weights();
    });
  }

  std::string table(int width) const {
    const bool tested = !finished_.empty() && std::isfinite(finished_.front().result.test_accuracy);
    const bool validated = !finished_.empty() && std::isfinite(finished_.front().result.accuracy);
    std::vector<std::string> head{"workers",  "time",     "to " + shortest(100 * asked_.reach) + " %",
                                  "images/s", "speed-up", "efficiency"};
    if (validated) head.emplace_back("held-out accuracy");
    if (tested) head.emplace_back("test accuracy");
    head.emplace_back("weights");
    std::vector<std::vector<std::string>> rows{head};
    for (const auto& [run, result] : finished_) {
      const double gain = result.images_per_second / finished_.front().result.images_per_second,
                   ratio = static_cast<double>(run.workers()) /
                           static_cast<double>(finished_.front().run.workers());
      const auto reached = run.seconds_to(asked_.reach);
      std::vector<std::string> row{std::to_string(run.workers()),
                                   fixed(run.seconds(), 1) + " s",
                                   reached ? fixed(*reached, 1) + " s" : "-",
                                   with_commas(std::llround(result.images_per_second)),
                                   fixed(gain, 2),
                                   fixed(100 * gain / ratio, 0) + " %"};
      if (validated) row.push_back(fixed(result.accuracy, 4));
      if (tested) row.push_back(fixed(result.test_accuracy, 4));
      row.push_back(run.weights());
      rows.push_back(std::move(row));
    }
    return in_columns_within(width, rows, std::string(head.size() - 1, 'r') + "l") + verdict();
  }

  std::string verdict() const {
    if (same_weights()) return "same weights: yes\n";
    if (deals_by_workers())
      return "same weights: no, because --sample-order distributed-sampler assigns other samples\n";
    return weights_follow_workers()
               ? "same weights: no, because --scale-with-workers changes the mini-batches\n"
               : "same weights: NO; they should be equal\n";
  }

  void write(const train::Plan& plan) const {
    std::vector<view::ScalingRun> runs;
    for (const Finished& one : finished_) runs.push_back(one.run);
    write_file_atomic(output_ / "scaling.svg",
                      view::scaling_svg(runs, plan.network.name + " on " + folder_.filename().string()));
    write_file_atomic(output_ / "scaling.csv", view::scaling_csv(runs));
    write_file_atomic(output_ / "scaling.txt", table(/*width=*/0));
  }

  Console& console_;
  ScalingOptions asked_;
  std::filesystem::path folder_;
  launch::StopSignals signals_;
  train::Options options_;
  std::filesystem::path output_;
  int64_t cores_ = 1, shards_ = 1;
  std::vector<Finished> finished_;
};

}  // namespace

int run_bench_scaling(const Call& call, Console& console) { return ScalingBench(call, console).run(); }

}  // namespace lockstep::cli
