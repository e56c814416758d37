#include "lockstep/train/planning/start_weights.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/surgery.h"
#include "lockstep/nn/trained_weights.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/train/options/normalization.h"
#include "lockstep/train/options/pretrained.h"
#include "lockstep/train/step/first_instance.h"

namespace lockstep::train {
namespace {

constexpr int kMostFoldersUp = 3;  // RUN/checkpoints/STEP/weights.safetensors
constexpr int64_t kMostManifestBytes = int64_t{64} << 20;

std::string pixels_text(int64_t height, int64_t width) {
  return std::to_string(height) + "x" + std::to_string(width);
}

Color color_of(int64_t channels) { return channels == 1 ? Color::grey : Color::rgb; }

std::string normalize_text(const DataPlan& data) {
  std::vector<std::string> numbers;
  for (size_t c = 0; c < data.mean.size(); ++c) {
    numbers.push_back(shortest(data.mean[c]));
    numbers.push_back(shortest(data.deviation[c]));
  }
  return numbers.empty() ? "none" : join(numbers, ",");
}

// The samples of the run whose folder has this file.
std::optional<DataPlan> data_of_run(const std::filesystem::path& file) {
  std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  for (int i = 0; i < kMostFoldersUp; ++i, folder = folder.parent_path()) {
    const std::filesystem::path manifest = record::RunPaths{folder}.options();
    if (!std::filesystem::exists(manifest)) continue;
    try {
      const Json json = parse_json(read_file(manifest, kMostManifestBytes));
      if (json.is_object() && json.contains("plan")) return read_plan(json["plan"]).data;
    } catch (const JsonError&) {
      return std::nullopt;
    } catch (const Error&) {
      return std::nullopt;  // another program's, or a run of an earlier version
    }
  }
  return std::nullopt;
}

[[noreturn]] void refuse_unknown(const std::string& file) {
  nn::read_weights(file);  // a damaged file has a better error
  throw Error(
      ErrorCode::invalid_option,
      "the file of weights \"" + file + "\" does not say how the samples of its training were normalised",
      "--normalize imagenet for torchvision's; none if pixels were only divided by 255; or MEAN,DEVIATION");
}

bool is_asked(const Options& options, const std::vector<std::string>& given, const std::string& name) {
  return field_text(options, name) != field_text(Options{}, name) ||
         std::find(given.begin(), given.end(), name) != given.end();
}

Options with_pretrained(const Options& options, const Completion& completion) {
  const nn::TrainedWeights* weights = pretrained_weights(options);
  if (weights == nullptr) return options;
  Options filled = with_input(options, weights->expected_input(), completion.given);
  // A part of another size is cut out of images that are fitted to it.
  if (is_asked(options, completion.given, "image-size") && options.resize_to.empty())
    filled.resize_to.clear();
  filled.network = weights->network;
  filled.weights = weights->path().string();
  if (!std::filesystem::exists(filled.weights))
    throw Error(ErrorCode::not_found,
                "the weights of " + filled.network + " are not in the cache, \"" + filled.weights + "\"",
                "download them: lockstep weights get " + filled.network);
  return filled;
}

// What differs between `filled` and `asked` as the plan of the run that is resumed has it.
Options as_planned(Options filled, const Options& asked, const Plan& earlier) {
  const nn::NetworkInput& input = earlier.network.input;
  const std::vector<int64_t>& larger = earlier.data.resize_to;
  const auto changed = [&](const char* name) { return field_text(filled, name) != field_text(asked, name); };
  if (changed("resize")) filled.resize = earlier.data.format.resize;
  if (changed("image-size")) filled.image_size = pixels_text(input.height, input.width);
  if (changed("color") || asked.color == Color::auto_) filled.color = color_of(input.channels);
  if (changed("resize-to")) filled.resize_to = larger.empty() ? "" : pixels_text(larger[0], larger[1]);
  return filled;
}

}  // namespace

Options with_input_of_weights(const Options& options, const Completion& completion) {
  Options filled = options;
  const auto is_open = [&] { return filled.normalize == "auto"; };
  if (!options.weights.empty() && options.pretrained.empty() && std::filesystem::exists(options.weights)) {
    if (const nn::TrainedWeights* known = nn::recognise_weights(options.weights)) {
      filled = with_input(filled, known->expected_input(), completion.given);
      if (filled.network == "auto") filled.network = known->network;
    }
    const bool color_is_open = filled.color == Color::auto_ && !is_asked(options, completion.given, "color");
    if (const auto data = is_open() || color_is_open ? data_of_run(options.weights) : std::nullopt) {
      if (is_open()) filled.normalize = normalize_text(*data);
      if (color_is_open && data->format.kind == data::SampleKind::image)
        filled.color = color_of(data->format.channels);
    }
    if (is_open() && completion.earlier == nullptr) refuse_unknown(options.weights);
  }
  if (is_open()) filled.normalize = "none";
  return filled;
}

Options completed(const Options& options, const nn::Network& own, const Completion& completion) {
  if (!options.pretrained.empty() && !own.empty())
    throw Error(ErrorCode::invalid_option, "--pretrained has its own network, but another one is given",
                "leave it out, and load weights with --weights");
  Options filled = with_pretrained(options, completion);
  if (!own.empty()) {
    filled = with_expected_input(filled, own, completion.given);
  } else if (filled.network != "auto") {
    filled = with_expected_input(filled, nn::find_network(filled.network), completion.given);
  }
  filled = with_input_of_weights(filled, completion);
  return completion.earlier == nullptr ? filled : as_planned(filled, options, *completion.earlier);
}

std::string normalization_warning(const Options& options, const nn::Network& own,
                                  const data::ImageFormat& format) {
  if (format.kind != data::SampleKind::image || options.weights.empty() ||
      (own.empty() && options.network == "auto"))
    return "";
  const nn::Network network = own.empty() ? nn::find_network(options.network) : own;
  Json expected = nn::expected_input(network);
  if (!options.pretrained.empty()) expected = nn::trained_weights_of(network.name()).expected_input();
  const std::string normalize = expected.value("normalize", options.normalize);
  if (normalize == options.normalize) return "";
  if (options.normalize != "mean-std" && normalize != "mean-std") {
    const Normalization wanted = parse_normalization(normalize, format.channels),
                        used = parse_normalization(options.normalize, format.channels);
    if (wanted.mean == used.mean && wanted.deviation == used.deviation) return "";
  }
  return "--normalize " + options.normalize + " is not what network \"" + network.name() + "\" expects, " +
         normalize + ": weights that were trained with that give poor results";
}

Head head_for(const Options& options, const std::vector<std::string>& classes, const Completion& completion) {
  if (options.pretrained.empty() || is_asked(options, completion.given, "head")) return options.head;
  if (completion.earlier != nullptr)
    return completion.earlier->network.fresh_layers.empty() ? Head::keep : Head::new_;
  const bool same = static_cast<int64_t>(classes.size()) == nn::trained_weights_of(options.network).classes;
  return same ? Head::keep : Head::new_;
}

std::string start_reason(const Options& options) {
  return options.pretrained.empty() ? "given" : "trained on ImageNet, published by PyTorch";
}

}  // namespace lockstep::train
