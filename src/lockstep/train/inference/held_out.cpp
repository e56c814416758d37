#include "lockstep/train/inference/held_out.h"

#include <algorithm>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/data/csv_name.h"
#include "lockstep/data/shared_samples.h"
#include "lockstep/data/sources.h"
#include "lockstep/io/address.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/not_a_run.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/train/planning/place_of_run.h"
#include "lockstep/train/planning/split.h"
#include "lockstep/train/run/run_files.h"

namespace lockstep::train {
namespace {

// Of the last event of a kind; empty: there is none.
std::string last_text(const std::vector<record::Event>& events, std::string_view kind, const char* name) {
  const auto last = std::find_if(events.rbegin(), events.rend(),
                                 [&](const record::Event& event) { return event.kind == kind; });
  return last == events.rend() ? "" : record::text(*last, name);
}

struct Run {
  const std::vector<record::Event>& events;
  const Manifest& manifest;
  const Model& model;
};

// Without the samples that training left out.
data::Dataset open(const std::string& path, data::SourceOptions how, const Run& run) {
  const Options& options = run.manifest.options;
  how.labels = options.labels;
  how.on_bad_sample = options.on_bad_sample;
  how.classes = run.model.classes;
  const data::Dataset dataset = data::open_source(seen_by_run(path, run.events), how).dataset;
  return readable_samples(dataset, run.model, options.on_bad_sample).first;
}

HeldOut whole(const std::string& path, const char* kind, const Run& run) {
  const data::Dataset dataset = open(path, {.test_part = true}, run);
  return {dataset, counted(dataset.size(), kind + (" " + sample_word(run.model))) + " of " + path};
}

HeldOut split_off(const std::string& path, const Run& run) {
  const auto& [events, manifest, model] = run;
  const data::Dataset dataset = open(path, {}, run);
  HeldOut held_out{split_off_held_out(dataset, manifest.options).second, ""};
  held_out.words = counted(held_out.dataset.size(), "held-out " + sample_word(model)) + " of " + path;
  if (manifest.plan.data.listing_hash != as_hex(dataset.store().listing_hash())) {
    held_out.warnings.push_back("\"" + path +
                                "\" has other files than when the run began, so some of the held-out images "
                                "may have been used for training");
  }
  return held_out;
}

// Also a place within an archive.
bool is_there(const std::string& place) {
  std::error_code none;
  if (io::is_address(place) || std::filesystem::exists(place, none)) return true;
  for (std::filesystem::path file = place; file.has_relative_path(); file = file.parent_path()) {
    if (std::filesystem::is_regular_file(file, none)) return true;
  }
  return false;
}

// With --limit-batches a part of it was not used.
data::Dataset training_part(const data::Dataset& whole, const Options& options) {
  const bool splits = options.validation.empty() && holds_out(options);
  return splits ? split_off_held_out(whole, options).first : whole;
}

std::string same_names_as(const std::string& folder) {
  return "they have the names of its training data, which are at \"" + folder + "\"";
}

// Other samples than the run's may have their names. Empty if they lie where the run's do, or did.
std::string doubt_of_twin(const data::Dataset& dataset, const Run& run) {
  const std::string folder = last_text(run.events, "plan", "folder");
  const std::string place = folder.empty() ? "" : seen_by_run(folder, run.events);
  if (place.empty() || !is_there(place) || data::has_samples_at(dataset, place)) return "";
  // A table may name images anywhere in its folder.
  if (data::is_table_name(place) && data::shared_samples(open(folder, {}, run), dataset) > 0) return "";
  return same_names_as(folder);
}

// An archive of the training data, or what was unpacked from one, may have other folders above its files.
TrainedOn copied_from_training(const data::Dataset& dataset, const std::string& folder, const Run& run) {
  const DataPlan& data = run.manifest.plan.data;
  const bool splits = run.manifest.options.validation.empty();
  if (dataset.size() != data.train_count + (splits ? data.validation_count : 0)) return {};
  const data::Dataset whole = open(folder, {}, run);
  if (!data::have_same_names(whole, dataset)) return {};
  const int64_t count = training_part(whole, run.manifest.options).size();
  return {.count = count, .held_out = dataset.size() - count, .unknown = same_names_as(folder)};
}

// By the places of the files.
TrainedOn shared_with_training(const data::Dataset& dataset, const Run& run) {
  const std::string folder = last_text(run.events, "plan", "folder");
  if (folder.empty()) return {.unknown = "the run does not say where its training data are"};
  const std::string place = seen_by_run(folder, run.events);
  const bool is_below = data::has_samples_at(dataset, place);
  if (!is_there(place) && !is_below)
    return {.unknown = "the run's training data are not at \"" + folder + "\" any more"};
  if (!is_below && !data::is_table_name(place)) return copied_from_training(dataset, folder, run);
  const data::Dataset whole = open(folder, {}, run);
  if (run.manifest.plan.data.listing_hash != as_hex(whole.store().listing_hash())) {
    const int64_t count = data::shared_samples(whole, dataset);
    return {.count = count, .unknown = count > 0 ? "the run's training data have other files now" : ""};
  }
  return {.count = data::shared_samples(training_part(whole, run.manifest.options), dataset)};
}

}  // namespace

HeldOut held_out_of_run(const std::filesystem::path& run_folder, const std::vector<record::Event>& events,
                        const Model& model) {
  const auto manifest = read_manifest(record::RunPaths{run_folder}.options());
  if (!manifest) throw record::not_a_run(run_folder);
  const Options& options = manifest->options;
  const Run run{events, *manifest, model};
  const std::string folder = last_text(events, "plan", "folder");
  const char* const hint = "name labelled images, FOLDER";
  // Held-out samples decided which weights are the best, test samples decided nothing.
  if (!options.test.empty()) return whole(options.test, "test", run);
  if (!options.validation.empty()) return whole(options.validation, "held-out", run);
  if (holds_out(options) && !folder.empty()) return split_off(folder, run);
  throw Error(ErrorCode::not_found,
              folder.empty() ? "the run does not say where its images are" : "the run held out no images",
              hint);
}

TrainedOn trained_on(const Model& model, const data::Dataset& dataset) {
  if (dataset.empty() || model.weights.empty()) return {};
  const auto run_folder = record::run_folder_around(model.weights);
  if (!run_folder) return {.unknown = "no run is recorded beside \"" + model.weights.string() + "\""};
  try {
    const auto manifest = read_manifest(record::RunPaths{*run_folder}.options());
    if (!manifest) return {.unknown = quote(run_folder->native()) + " has no record of a run"};
    const std::vector<record::Event> events = record::read_events(*run_folder);
    const Run run{events, *manifest, model};
    if (manifest->plan.data.listing_hash != as_hex(dataset.store().listing_hash()))
      return shared_with_training(dataset, run);
    const int64_t count = training_part(dataset, manifest->options).size();
    return {.count = count, .held_out = dataset.size() - count, .unknown = doubt_of_twin(dataset, run)};
  } catch (const Error& error) {
    return {.unknown = error.message()};
  }
}

std::string trained_on_words(const TrainedOn& trained, int64_t samples, const std::string& them) {
  if (trained.count == 0)
    return trained.unknown.empty()
               ? ""
               : "whether the network was trained on " + them + " is unknown: " + trained.unknown;
  const std::string which = trained.count >= samples ? them : with_commas(trained.count) + " of " + them;
  return trained.unknown.empty() ? "the run was trained on " + which
                                 : "the run may have been trained on " + which + ": " + trained.unknown;
}

}  // namespace lockstep::train
