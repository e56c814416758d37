#include "lockstep/train/run/folds.h"

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include "lockstep/base/describe.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/pool/worker.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/train/loop/ranks.h"
#include "lockstep/train/options/plan.h"
#include "lockstep/train/run/run_files.h"
#include "lockstep/train/run/run_start.h"

namespace lockstep::train {
namespace {

constexpr int64_t kMostFoldsBytes = 16 << 20;
const std::string kTimeOver = describe_detail::as_text(EndReason::max_time);

std::filesystem::path folds_file(const std::filesystem::path& folder) { return folder / "folds.json"; }

std::filesystem::path fold_folder(const std::filesystem::path& folder, int64_t fold) {
  return folder / ("fold-" + std::to_string(fold));
}

Json read_folds(const std::filesystem::path& folder) {
  const std::filesystem::path path = folds_file(folder);
  try {
    const Json json = parse_json(read_file(path, kMostFoldsBytes));
    if (json.is_object() && json.contains("options")) return json;
  } catch (const JsonError&) {
  }
  throw Error(ErrorCode::corrupt_data, "\"" + path.string() + "\" is not the file of a cross-validation",
              "restore the file, or start again with another --output");
}

// A run that ended before it had written its options has learned nothing, and begins anew.
bool continues_fold(const std::filesystem::path& part) {
  if (std::filesystem::exists(record::RunPaths{part}.options())) return true;
  if (std::filesystem::exists(part)) {
    const record::RunFolder not_in_use = record::RunFolder::open(part);
    std::filesystem::remove_all(part);
  }
  return false;
}

Json score_json(double value) { return std::isnan(value) ? Json() : Json(value); }

double score_in(const Json& json, const char* name) {
  const bool has = json.contains(name) && json[name].is_number();
  return has ? json[name].get<double>() : std::numeric_limits<double>::quiet_NaN();
}

// Of a run that --max-time ended. It could go on, and does so only if it has more time.
Result result_over_time(const Json& run, const std::filesystem::path& output) {
  return {.reason = EndReason::max_time,
          .accuracy = score_in(run, "accuracy"),
          .test_accuracy = score_in(run, "test_accuracy"),
          .steps = run.value("steps", int64_t{0}),
          .output = output,
          .weights = run.value("weights", "")};
}

Json spread_json(const Spread& spread) {
  return {{"mean", score_json(spread.mean)}, {"standard_deviation", score_json(spread.deviation)}};
}

void add_spreads(FoldsResult& result) {
  std::vector<double> scores, test_scores;
  for (const Result& run : result.runs) {
    if (!std::isnan(run.accuracy)) scores.push_back(run.accuracy);
    if (!std::isnan(run.test_accuracy)) test_scores.push_back(run.test_accuracy);
  }
  result.accuracy = spread_of(scores);
  result.test_accuracy = spread_of(test_scores);
}

// One rank's part of a cross-validation. Rank 0 has the folder.
class Folds {
 public:
  Folds(const TrainingRequest& request, const Options& asked, comm::Communicator& comm)
      : request_(request), leads_(comm.rank() == 0) {
    Json of_rank_0;
    if (leads_) {
      open(asked);
      of_rank_0 = {{"options", lockstep::to_json(options_)}, {"over", over_}};
    }
    of_rank_0 = broadcast_json(comm, of_rank_0);
    read_json(of_rank_0["options"], options_, "the options of rank 0");
    over_ = of_rank_0["over"];
  }

  FoldsResult make(const FoldBegins& begins) {
    FoldsResult result{.runs = {}, .accuracy = {}, .test_accuracy = {}, .output = options_.output};
    for (int64_t fold = 1; fold <= options_.validation_folds && !result.stopped(); ++fold) {
      Options options = options_;
      options.fold = fold;
      const std::filesystem::path output = fold_folder(options_.output, fold);
      if (const Json* run = run_over_time(fold)) {
        result.runs.push_back(result_over_time(*run, output));
        add_spreads(result);
        continue;
      }
      options.output = output.string();
      options.resume = leads_ && continues_fold(output);
      if (begins) begins(fold, options_.validation_folds, output);
      result.runs.push_back(with_context(
          [&] {
            return "in fold " + std::to_string(fold) + " of " + std::to_string(options_.validation_folds);
          },
          [&] { return fit(request_, options); }));
      add_spreads(result);
      if (leads_ && !result.stopped()) write(result);
    }
    return result;
  }

 private:
  const Json* run_over_time(int64_t fold) const {
    if (!over_.is_array() || fold > std::ssize(over_)) return nullptr;
    const Json& run = over_[static_cast<size_t>(fold - 1)];
    return run.is_object() && run.contains("reason") && run["reason"] == kTimeOver ? &run : nullptr;
  }

  void open(const Options& asked) {
    if (asked.resume) {
      folder_ = record::RunFolder::open(asked.output);
      Options begun;
      const Json before = read_folds(asked.output);
      read_json(before["options"], begun, "\"" + folds_file(asked.output).string() + "\"");
      // More time, or none to end at, is for all runs.
      if (asked.max_time == begun.max_time) over_ = before.value("folds", Json::array());
      options_ = resumed_options(asked, begun, request_.given, Change::refused);
    } else {
      options_ = asked;
      folder_ = create_run_folder(request_, asked);
    }
    options_.output = folder_->paths().folder.string();
    options_.resume = false;
    if (!asked.resume) write({});
  }

  void write(const FoldsResult& result) const {
    Json json{{"options", lockstep::to_json(options_)}};
    for (const Result& run : result.runs)
      json["folds"].push_back({{"reason", describe_detail::as_text(run.reason)},
                               {"accuracy", score_json(run.accuracy)},
                               {"test_accuracy", score_json(run.test_accuracy)},
                               {"steps", run.steps},
                               {"weights", run.weights.string()}});
    if (std::ssize(result.runs) == options_.validation_folds) {
      json["accuracy"] = spread_json(result.accuracy);
      json["test_accuracy"] = spread_json(result.test_accuracy);
    }
    write_file_atomic(folds_file(options_.output), json.dump(2) + "\n");
  }

  const TrainingRequest& request_;
  const bool leads_;
  Options options_;
  Json over_ = Json::array();  // the runs of an earlier call, as folds.json has them
  std::optional<record::RunFolder> folder_;
};

}  // namespace

Spread spread_of(const std::vector<double>& scores) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (scores.empty()) return {kNone, kNone};
  const auto count = static_cast<double>(scores.size());
  const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / count;
  double squares = 0;
  for (const double score : scores) squares += (score - mean) * (score - mean);
  return {mean, std::sqrt(squares / count)};
}

bool holds_folds(const std::filesystem::path& folder) { return std::filesystem::exists(folds_file(folder)); }

FoldsResult fit_folds(const TrainingRequest& request, const Options& options, const FoldBegins& begins) {
  if (pool::Worker::current() != nullptr)
    throw Error(ErrorCode::invalid_option, "a task of a pool cannot train the runs of a cross-validation",
                "call fit with validation_folds and fold, a number from 1, for example in a parfor");
  Options first = options;
  if (!options.resume) {
    first.fold = 1;
    plan(request, first);  // refuses what cannot be trained before a folder is made
  }
  if (request.comm != nullptr) return Folds(request, options, *request.comm).make(begins);
  return Folds(request, options, *comm::make_communicator()).make(begins);
}

}  // namespace lockstep::train
