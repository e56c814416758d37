// The command `layer show`: what a layer of a trained network gives for one sample, as pictures.
#include <algorithm>
#include <cmath>

#include <ATen/Functions.h>

#include "lockstep/base/base64.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/image_files.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/cli/trained_model.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/sources.h"
#include "lockstep/data/web_image.h"
#include "lockstep/io/address.h"
#include "lockstep/nn/layers.h"
#include "lockstep/train/inference/layer_outputs.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kPictureSide = 256;  // pixels of the sample's picture
constexpr int64_t kMapGap = 1;         // pixels between two maps in a file

struct Range {
  double least = INFINITY;  // of the finite numbers
  double greatest = -INFINITY;
  double sum = 0;
  int64_t finite = 0;
  int64_t zeros = 0;
};

// A matrix of the output: a channel of images, or all features of a sequence against time.
struct Map {
  int64_t height = 0;
  int64_t width = 0;
  const double* numbers = nullptr;
  Range range{};

  int64_t count() const { return height * width; }
};

// What the layer gave. Without maps, it gives one number for each feature.
struct Output {
  at::Tensor numbers;  // float64, without the batch
  std::vector<Map> maps{};
  Range range{};
};

void take(Range& range, double number) {
  range.zeros += number == 0 ? 1 : 0;
  if (!std::isfinite(number)) return;
  range.least = std::min(range.least, number);
  range.greatest = std::max(range.greatest, number);
  range.sum += number;
  ++range.finite;
}

Output output_of(const at::Tensor& rows) {
  Output output{.numbers = rows.select(0, 0).to(at::kDouble).contiguous()};
  const auto* const numbers = output.numbers.const_data_ptr<double>();
  for (int64_t i = 0; i < output.numbers.numel(); ++i) take(output.range, numbers[i]);
  const auto sizes = output.numbers.sizes();
  if (sizes.size() < 2) return output;
  const bool has_channels = sizes.size() == 3;
  const Map one{.height = has_channels ? sizes[1] : sizes[0], .width = sizes.back()};
  for (int64_t at = 0; at < output.numbers.numel(); at += one.count()) {
    Map map = one;
    map.numbers = numbers + at;
    for (int64_t i = 0; i < map.count(); ++i) take(map.range, map.numbers[i]);
    output.maps.push_back(map);
  }
  return output;
}

// Black for the least number of the layer, white for the greatest: maps can be compared. NaN is black.
char grey_of(double number, const Range& range) {
  const double width = range.greatest - range.least;
  const double share = width > 0 ? (number - range.least) / width : 0;
  return static_cast<char>(std::lround(255 * (share > 0 ? std::min(share, 1.0) : 0)));
}

std::string png_of(const Map& map, const Range& range) {
  std::string pixels(static_cast<size_t>(map.count()), '\0');
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = grey_of(map.numbers[i], range);
  return data::grey_png(pixels, map.height, map.width);
}

// All maps in rows, as nearly a square as their number allows.
std::string png_of_all(const Output& output) {
  const auto count = static_cast<int64_t>(output.maps.size());
  const Map& first = output.maps.front();
  const int64_t columns = std::max<int64_t>(1, std::llround(std::ceil(std::sqrt(double(count)))));
  const int64_t rows = (count + columns - 1) / columns;
  const int64_t width = columns * (first.width + kMapGap) - kMapGap,
                height = rows * (first.height + kMapGap) - kMapGap;
  std::string pixels(static_cast<size_t>(width * height), '\xff');
  for (int64_t number = 0; number < count; ++number) {
    const Map& map = output.maps[static_cast<size_t>(number)];
    const int64_t top = number / columns * (map.height + kMapGap);
    const int64_t left = number % columns * (map.width + kMapGap);
    for (int64_t i = 0; i < map.count(); ++i)
      pixels[static_cast<size_t>((top + i / map.width) * width + left + i % map.width)] =
          grey_of(map.numbers[i], output.range);
  }
  return data::grey_png(pixels, height, width);
}

data::Dataset sample_of(const Call& call, const train::Model& model, const train::Options& options) {
  const std::string& path = call.words[1];
  const int64_t index = settings_of<LayerShowOutput>(call).sample;
  const bool is_image =
      data::is_image_name(path) && !io::is_address(path) && !std::filesystem::is_directory(path);
  const data::Dataset all = is_image ? image_files({path}, model.classes)
                                     : data::open_source(path, {.labels = labels_of(call, model),
                                                                .on_bad_sample = options.on_bad_sample,
                                                                .classes = model.classes,
                                                                .unlabelled = true,
                                                                .test_part = true})
                                           .dataset;
  if (index >= all.size())
    throw Error(
        ErrorCode::invalid_option,
        quote(path) + " has no sample " + std::to_string(index) + ": it has " + with_commas(all.size()),
        "samples count from 0: --sample " + std::to_string(std::max<int64_t>(0, all.size() - 1)));
  return all.subset({index});
}

Json range_json(const Range& range, int64_t count) {
  Json json{{"zeros", range.zeros}, {"not_finite", count - range.finite}};
  if (range.finite > 0)
    json.update({{"least", range.least},
                 {"greatest", range.greatest},
                 {"mean", range.sum / static_cast<double>(range.finite)}});
  return json;
}

Json json_of_output(const Output& output, const nn::LayerRow& layer, const nn::NetworkTable& table,
                    const data::Dataset& sample) {
  Json json = range_json(output.range, output.numbers.numel());
  json.update({{"layer", layer.name}, {"type", layer.type}, {"shape", output.numbers.sizes().vec()}});
  json["source"] = sample.store().source(0);
  if (sample.store().kind() == data::SampleKind::image) {
    const data::WebImage picture = data::web_image(sample, 0, kPictureSide);
    json["picture"] = {{"type", picture.type},
                       {"image", as_base64(picture.bytes)},
                       {"width", picture.width},
                       {"height", picture.height}};
  }
  for (const nn::LayerRow& row : table.rows)
    json["layers"].push_back({{"name", row.name}, {"type", row.type}, {"shape", row.shape}});
  json["maps"] = Json::array();
  for (const Map& map : output.maps) {
    Json one = range_json(map.range, map.count());
    one["image"] = as_base64(png_of(map, output.range));
    json["maps"].push_back(std::move(one));
  }
  if (!output.maps.empty()) return json;
  const auto* const numbers = output.numbers.const_data_ptr<double>();
  for (int64_t i = 0; i < output.numbers.numel(); ++i)
    json["values"].push_back(std::isfinite(numbers[i]) ? Json(numbers[i]) : Json(nullptr));
  return json;
}

std::string text_of_output(const Output& output) {
  std::vector<std::vector<std::string>> rows;
  if (output.maps.empty()) {
    rows.push_back({"feature", "value"});
    const auto* const numbers = output.numbers.const_data_ptr<double>();
    for (int64_t i = 0; i < output.numbers.numel(); ++i)
      rows.push_back({std::to_string(i), figure_cell(numbers[i])});
    return in_columns(rows, "rr");
  }
  rows.push_back({"map", "least", "mean", "greatest", "zeros"});
  for (size_t i = 0; i < output.maps.size(); ++i) {
    const Range& range = output.maps[i].range;
    const auto figure = [&](double value) { return range.finite == 0 ? "-" : figure_cell(value); };
    rows.push_back({std::to_string(i), figure(range.least),
                    figure(range.sum / static_cast<double>(std::max<int64_t>(1, range.finite))),
                    figure(range.greatest), with_commas(range.zeros)});
  }
  return in_columns(rows, "rrrrr");
}

const nn::LayerRow& layer_of(const nn::NetworkTable& table, const std::string& name) {
  if (name.empty()) return table.rows.front();
  const auto found =
      std::find_if(table.rows.begin(), table.rows.end(), [&](const auto& row) { return row.name == name; });
  return found == table.rows.end() ? table.rows.front() : *found;  // layer_outputs says what is wrong
}

}  // namespace

int run_layer_show(const Call& call, Console& console) {
  const train::Options options = inference_options(call);
  const auto asked = settings_of<LayerShowOutput>(call);
  const train::Model model = open_model(call, console);
  const nn::NetworkTable table = nn::inspect_network(model.network, model.input);
  const nn::LayerRow& layer = layer_of(table, asked.layer);
  const data::Dataset sample = sample_of(call, model, options);
  const Output output =
      output_of(train::layer_outputs(model, asked.layer.empty() ? layer.name : asked.layer, sample, options));
  if (!asked.output.empty()) {
    if (output.maps.empty())
      throw Error(ErrorCode::invalid_option,
                  "layer " + quote(layer.name) + " gives one number for each feature, and no picture",
                  "leave out --output, or name a layer before it");
    write_file_atomic(asked.output, png_of_all(output));
  }
  if (settings_of<JsonOutput>(call).json) {
    console.print(
        json_of_output(output, layer, table, sample).dump(1, ' ', false, Json::error_handler_t::replace) +
        "\n");
    return 0;
  }
  console.print(layer.name + " (" + layer.type + ") gives " + sizes_cell(output.numbers.sizes().vec()) +
                " for " + printable(sample.store().source(0)) + "\n" + text_of_output(output));
  return 0;
}

}  // namespace lockstep::cli
