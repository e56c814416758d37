// The command `data show`: what a training would learn from.
#include <algorithm>

#include "lockstep/base/base64.h"
#include "lockstep/base/counted.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/web_image.h"
#include "lockstep/train/options/options.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kSampleSide = 160;        // pixels
constexpr size_t kMostPictures = 2000;      // in one answer
constexpr const char* kNoClass = "(none)";  // of sequences with a class for each time step

struct ClassOfData {
  std::string name{};
  std::vector<int64_t> samples{};  ///< their indices
};

std::vector<ClassOfData> counted_classes(const data::Dataset& dataset) {
  std::vector<ClassOfData> classes;
  for (const std::string& name : dataset.classes()) classes.push_back({.name = name});
  ClassOfData without{.name = kNoClass};
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const int64_t label = dataset.store().label(i);
    (label < 0 ? without : classes[static_cast<size_t>(label)]).samples.push_back(i);
  }
  if (!without.samples.empty()) classes.push_back(std::move(without));
  return classes;
}

// One that cannot be read is shown with the reason.
Json picture(const data::Dataset& dataset, int64_t index) {
  Json json{{"index", index}, {"source", dataset.store().source(index)}};
  try {
    const data::WebImage image = data::web_image(dataset, index, kSampleSide);
    json.update({{"type", image.type},
                 {"image", as_base64(image.bytes)},
                 {"width", image.width},
                 {"height", image.height}});
  } catch (const data::BadImage& bad) {
    json["error"] = bad.reason();
  }
  return json;
}

Json pictures(const data::Dataset& dataset, const std::vector<int64_t>& samples, size_t count) {
  Json list = Json::array();
  count = std::min(count, samples.size());
  for (size_t i = 0; i < count; ++i) list.push_back(picture(dataset, samples[i * samples.size() / count]));
  return list;
}

Json json_of_data(const data::Source& source, int64_t samples) {
  const data::Dataset& dataset = source.dataset;
  const bool has_images = dataset.store().kind() == data::SampleKind::image;
  Json json{{"kind", source.kind},
            {"samples", dataset.size()},
            {"sequences", !has_images},
            {"skipped", source.skipped.size()},
            {"classes", Json::array()}};
  size_t left = kMostPictures;
  for (const ClassOfData& one : counted_classes(dataset)) {
    Json entry{{"name", one.name}, {"samples", one.samples.size()}};
    if (has_images && samples > 0) {
      entry["pictures"] = pictures(dataset, one.samples, std::min(left, static_cast<size_t>(samples)));
      left -= entry["pictures"].size();
    }
    json["classes"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace

int run_data_show(const Call& call, Console& console) {
  const auto options = settings_of<train::Options>(call);
  const data::Source source = data::open_source(
      call.words.front(), {.labels = options.labels, .on_bad_sample = options.on_bad_sample});
  if (settings_of<JsonOutput>(call).json) {
    const Json json = json_of_data(source, settings_of<DataChoice>(call).samples);
    console.print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return 0;
  }
  const bool has_images = source.dataset.store().kind() == data::SampleKind::image;
  const std::vector<ClassOfData> classes = counted_classes(source.dataset);
  std::vector<std::vector<std::string>> rows{{"class", has_images ? "images" : "sequences"}};
  for (const ClassOfData& one : classes)
    rows.push_back({name_cell(one.name), with_commas(static_cast<int64_t>(one.samples.size()))});
  console.print(printable(source.kind) + ": " +
                counted(source.dataset.size(), has_images ? "image" : "sequence") + " of " +
                counted(std::ssize(source.dataset.classes()), "class") + "\n" + in_columns(rows, "lr") +
                (source.warning.empty() ? "" : "\n" + printable(source.warning) + "\n"));
  return 0;
}

}  // namespace lockstep::cli
