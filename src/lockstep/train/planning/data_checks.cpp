#include "lockstep/train/planning/data_checks.h"

#include <algorithm>
#include <array>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/train/planning/class_weights.h"
#include "lockstep/train/planning/sample_format.h"

namespace lockstep::train {
namespace {

struct OptionOfKind {
  const char* name;
  data::SampleKind kind;
  const char* always_allowed = nullptr;  ///< a value that describes the other kind of data correctly
};
constexpr auto kImage = data::SampleKind::image;
constexpr auto kSequence = data::SampleKind::sequence;
// All other options are for both kinds.
constexpr std::array<OptionOfKind, 12> kOptionsOfKind{{
    {"image-size", kImage},
    {"resize", kImage},
    {"resize-to", kImage},
    {"color", kImage},
    {"decode", kImage},
    {"augment", kImage},
    {"cache", kImage, "off"},
    {"cache-size", kImage},
    {"sequence-padding", kSequence},
    {"sequence-length", kSequence},
    {"tbptt-length", kSequence},
    {"sort-by-length", kSequence},
}};

const char* noun(data::SampleKind kind) { return kind == kImage ? "images" : "sequences"; }

std::string first_reason(const data::Dataset& whole, int64_t label, const std::vector<data::BadSample>& bad) {
  for (int64_t i = 0; i < whole.size(); ++i) {
    if (whole.store().label(i) != label) continue;
    const std::string source = whole.store().source(i);
    const auto found = std::find_if(bad.begin(), bad.end(),
                                    [&](const data::BadSample& sample) { return sample.source == source; });
    return "\"" + source + "\": " + (found == bad.end() ? "" : found->reason);
  }
  return "";
}

void check_classes_left(const data::Dataset& whole, const data::Dataset& left,
                        const std::vector<data::BadSample>& bad) {
  const std::vector<int64_t> before = count_classes(whole),
                             after = left.empty() ? std::vector<int64_t>(before.size()) : count_classes(left);
  for (size_t label = 0; label < before.size(); ++label) {
    if (before[label] == 0 || after[label] > 0) continue;
    const std::string count =
        before[label] == 1 ? "the one image" : "none of the " + with_commas(before[label]) + " images";
    throw Error(ErrorCode::corrupt_data,
                count + " of class \"" + whole.classes()[label] + "\" " +
                    (before[label] == 1 ? "cannot" : "can") + " be read; the first is " +
                    first_reason(whole, static_cast<int64_t>(label), bad),
                "add readable images to the class's folder, or remove the folder to leave the class out");
  }
}

void check_labels_of(const data::Dataset& dataset, int64_t classes, const std::string& part) {
  if (dataset.empty()) return;
  const data::Datastore& store = dataset.store();
  const auto check = [&](int64_t index, int64_t label) {
    if (label >= -1 && label < classes) return;
    throw Error(ErrorCode::invalid_option,
                "sample " + std::to_string(index) + part + " (\"" + store.source(index) + "\") has label " +
                    std::to_string(label) + ", but there are " + with_commas(classes) + " classes (0 to " +
                    std::to_string(classes - 1) + ")",
                "a label is the place of a name in classes(), counted from 0; -1: the sample has none");
  };
  for (int64_t i = 0; i < dataset.size(); ++i) {
    if (store.labels_time_steps()) {
      for (const int64_t label : store.time_step_labels(i)) check(i, label);
    } else {
      check(i, store.label(i));
    }
  }
}

}  // namespace

void check_labels(const Datasets& sets) {
  const auto classes = static_cast<int64_t>(sets.train.classes().size());
  check_labels_of(sets.train, classes, "");
  check_labels_of(sets.validation, classes, " of the validation data");
  check_labels_of(sets.test, classes, " of the test data");
}

void check_kind_of_data(const Options& options, data::SampleKind kind) {
  const Options defaults;
  for (const OptionOfKind& option : kOptionsOfKind) {
    const std::string value = field_text(options, option.name);
    if (option.kind == kind || value == field_text(defaults, option.name)) continue;
    if (option.always_allowed != nullptr && value == option.always_allowed) continue;
    throw Error(ErrorCode::invalid_option,
                "--" + std::string(option.name) + " " + value + " is for " + noun(option.kind) +
                    ", and the data are " + noun(kind),
                "leave it out");
  }
}

std::vector<data::BadSample> leave_out_bad_samples(Datasets& sets, const DataPlan& data,
                                                   const ImageCaches& caches, int64_t threads) {
  std::vector<data::BadSample> all;
  const auto leave_out = [&](data::Dataset& dataset, const data::ImageFormat& format,
                             const data::OpenedCache& cache) {
    if (dataset.empty()) return;
    auto [good, bad] = data::without_bad_samples(dataset, format, threads, cache.cache);
    check_classes_left(dataset, good, bad);
    dataset = good;
    all.insert(all.end(), bad.begin(), bad.end());
  };
  leave_out(sets.train, training_format(data), caches.train);
  leave_out(sets.validation, data.format, caches.validation);
  leave_out(sets.test, data.format, caches.test);
  return all;
}

}  // namespace lockstep::train
