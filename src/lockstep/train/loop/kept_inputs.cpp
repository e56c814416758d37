#include "lockstep/train/loop/kept_inputs.h"

#include <algorithm>
#include <chrono>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/train/cache/feature_files.h"
#include "lockstep/train/options/placement.h"

namespace lockstep::train {

KeptInputs::KeptInputs(const TrainingSetup& setup, comm::ThreadGroup& group, RunReports& reports)
    : setup_(setup),
      group_(group),
      reports_(reports),
      kept_(setup.kept_features != nullptr ? setup.kept_features : std::make_shared<KeptFeatures>()),
      features_(kept_->sets) {
  if (!setup.plan.network.keep_features || !features_.empty()) return;
  features_.emplace_back(setup.train, setup.train_features);
  if (setup.validation != nullptr) features_.emplace_back(setup.validation, setup.validation_features);
}

void KeptInputs::open(const SharedWeights& weights, const nn::Instance& prototype) {
  open_features(weights, prototype);
  open_resident();
}

void KeptInputs::open_features(const SharedWeights& weights, const nn::Instance& prototype) {
  if (kept_->filled) return;
  // A checkpoint may have other frozen weights than the file of --weights has now.
  const bool any =
      std::ranges::any_of(features_, [](const Features& features) { return features.file() != nullptr; });
  const uint64_t frozen =
      any ? hash_of_frozen(weights.state(), prototype, static_cast<size_t>(setup_.plan.network.frozen_layers))
          : 0;
  for (Features& features : features_) features.check_file(frozen);
}

void KeptInputs::open_resident() {
  const MachinePlan& machine = setup_.plan.machine;
  if (!machine.resident) return;
  std::vector<std::shared_ptr<const data::ImageSet>> sets{setup_.train};
  if (setup_.validation != nullptr) sets.push_back(setup_.validation);
  resident_ = take_resident(sets, open_device(machine.device, machine.gpu), machine.resident_required,
                            [&](const std::string& text) { reports_.message(text, "warning"); });
}

void KeptInputs::fill(Worker& worker) {
  if (!features_.empty() && !kept_->filled) compute_features(worker);
  if (!resident_.empty()) load_images(worker);
}

void KeptInputs::compute_features(Worker& worker) {
  const auto start = std::chrono::steady_clock::now();
  with_context([] { return std::string("while the frozen layers' output was computed"); },
               [&] {
                 int64_t before = 0;
                 auto last = start;
                 for (Features& features : features_) {
                   const auto samples = features.images().size();
                   const auto tell = [&](double done) {
                     if (!worker.is_first() || seconds_since(last) < 1) return;
                     last = std::chrono::steady_clock::now();
                     report_progress(before + static_cast<int64_t>(done * static_cast<double>(samples)),
                                     seconds_since(start));
                   };
                   features.compute(worker.thread, worker.runner, setup_.stop, tell);
                   before += samples;
                 }
               });
  group_.barrier();
  if (worker.is_first()) report_features(seconds_since(start));
  group_.barrier([&] { kept_->filled = !setup_.stop.stop_requested(); });
}

void KeptInputs::load_images(Worker& worker) {
  if (worker.is_first()) {
    const auto start = std::chrono::steady_clock::now();
    const int64_t threads = std::max<int64_t>(1, setup_.plan.machine.cores / setup_.comm.size());
    int64_t count = 0, bytes = 0;
    with_context([] { return std::string("while the images were brought to the GPU"); },
                 [&] {
                   for (ResidentImages& images : resident_) {
                     images.load(threads, setup_.stop);
                     count += images.images().size();
                     bytes += images.bytes();
                   }
                 });
    const double seconds = seconds_since(start);
    reports_.say(record::Message{.text = counted(count, "image") + " brought to the GPU in " +
                                         fixed(seconds, 1) + " s; " + as_bytes(bytes) + " there",
                                 .seconds = seconds});
  }
  group_.barrier();
}

BatchImages KeptInputs::batch_images() const {
  return setup_.plan.network.keep_features || !resident_.empty() ? BatchImages::kept : BatchImages::wanted;
}

BatchImages KeptInputs::batch_images(const data::ImageSet& images) const {
  return features_of(images) != nullptr || resident_of(images) != nullptr ? BatchImages::kept
                                                                          : BatchImages::wanted;
}

void KeptInputs::add_images(const data::ImageSet& images, std::vector<data::Shard>& shards) const {
  if (const ResidentImages* resident = resident_of(images)) resident->fill(shards);
}

void KeptInputs::add_features(const data::ImageSet& images, data::Shard& shard, ShardRunner& runner) const {
  if (const Features* features = features_of(images)) shard.input = features->rows(shard.samples, runner);
}

const Features* KeptInputs::features_of(const data::ImageSet& images) const {
  for (const Features& features : features_) {
    if (&features.images() == &images) return &features;
  }
  return nullptr;
}

const ResidentImages* KeptInputs::resident_of(const data::ImageSet& images) const {
  for (const ResidentImages& resident : resident_) {
    if (&resident.images() == &images) return &resident;
  }
  return nullptr;
}

void KeptInputs::report_progress(int64_t done, double seconds) {
  int64_t all = 0;
  for (const Features& features : features_) all += features.images().size();
  reports_.say(record::Features{.done = done,
                                .all = all,
                                .seconds_left = seconds * static_cast<double>(all - done) /
                                                static_cast<double>(std::max<int64_t>(1, done))});
}

void KeptInputs::report_features(double seconds) {
  int64_t count = 0, computed = 0, bytes = 0;
  std::string where;
  for (const Features& features : features_) {
    count += features.images().size();
    computed += features.computed();
    bytes += features.bytes();
    if (where.empty() && features.file() != nullptr)
      where = " in " + features.file()->path().parent_path().string() + " (--cache)";
  }
  const std::string found =
      computed < count ? ", " + with_commas(count - computed) + " of them found there" : "";
  const std::string images = counted(count, "image"), took = fixed(seconds, 1) + " s";
  const std::string text = computed == 0 ? "the frozen layers' output for " + images + " was found" + where +
                                               ", read in " + took + "; " + as_bytes(bytes)
                                         : "frozen layers computed once for " + images + " in " + took +
                                               "; " + as_bytes(bytes) + " kept" + where + found;
  reports_.say(record::Message{.text = text, .seconds = seconds, .computed = computed});
}

void KeptInputs::report_cache_failure() {
  if (said_cache_failure_) return;
  const auto report = [this](const data::RecordFile* file, const char* what) {
    const std::string failure = file == nullptr ? std::string() : file->failure();
    if (failure.empty()) return;
    said_cache_failure_ = true;
    reports_.message(failure + "; the run continues, and " + what, "warning");
  };
  for (const auto& images : {setup_.train, setup_.validation}) {
    if (images != nullptr)
      report(images->cache(), "images that are not in the cache are decoded again in every epoch");
  }
  for (const Features& features : features_)
    report(features.file(), "the output of frozen layers that is not in the cache is computed again");
}

}  // namespace lockstep::train
