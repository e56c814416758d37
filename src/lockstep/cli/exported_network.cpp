#include "lockstep/cli/exported_network.h"

#include <filesystem>
#include <system_error>

#include "lockstep/base/counted.h"
#include "lockstep/base/counted_given.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/no_network.h"
#include "lockstep/cli/trained_model.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/state.h"
#include "lockstep/nn/surgery.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/train/inference/predict.h"
#include "lockstep/train/options/image_size.h"
#include "lockstep/train/options/normalization.h"
#include "lockstep/train/step/first_instance.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kSeed = 0;
constexpr int64_t kMostClasses = 1'000'000;

std::string size_text(int64_t height, int64_t width) {
  return std::to_string(height) + "x" + std::to_string(width);
}

std::string normalize_text(const train::Model& model) {
  if (model.mean.empty() || model.deviation.empty()) return "none";
  std::vector<std::string> numbers;
  for (size_t i = 0; i < model.mean.size(); ++i) {
    numbers.push_back(shortest(model.mean[i]));
    numbers.push_back(shortest(model.deviation[i]));
  }
  return join(numbers, ",");
}

/// What the weights expect of images, as the "input" of a network file.
Json input_of(const train::Model& model) {
  if (model.input.time_steps > 0) return {{"normalize", normalize_text(model)}};
  Json input{{"image-size", size_text(model.input.height, model.input.width)},
             {"color", model.input.channels == 1 ? "grey" : "rgb"},
             {"resize", enum_names(model.resize)[static_cast<size_t>(model.resize)]},
             {"normalize", normalize_text(model)}};
  if (model.resize_to.size() == 2) input["resize-to"] = size_text(model.resize_to[0], model.resize_to[1]);
  return input;
}

/// What the network's file says of its input, and what the call gives in place of it.
Json asked_input(const Call& call, const nn::Network& network) {
  Json input = nn::expected_input(network);
  for (const Setting& setting : call.settings) {
    if (is_input_option(setting.name)) input[setting.name] = setting.text;
  }
  return input;
}

nn::Network with_input(const nn::Network& network, const Json& input) {
  if (network.spec().is_null() || input.empty()) return network;
  Json spec = network.spec();
  if (spec.is_array()) spec = Json{{"layers", std::move(spec)}};
  spec["input"] = input;
  return nn::read_network(spec, network.name());
}

onnx::TrainedNetwork trained(const train::Model& model, const Json& input) {
  return {.network = with_input(model.network, input),
          .input = model.input,
          .state = model.state,
          .classes = model.classes,
          .mean = model.mean,
          .deviation = model.deviation};
}

onnx::TrainedNetwork trained(const train::Model& model) { return trained(model, input_of(model)); }

/// Class names, or numbers as names.
std::vector<std::string> classes_of(const std::string& text, int64_t otherwise) {
  int64_t count = otherwise;
  if (!text.empty()) {
    const auto number = parse_number<int64_t>(text);
    if (!number) return read_classes(text);
    if (*number < 1 || *number > kMostClasses)
      throw Error(ErrorCode::invalid_option,
                  "option --classes cannot be " + quote(text) + ": a number of classes is from 1 to " +
                      with_commas(kMostClasses),
                  "name a file with the class names, one per line, or give their number");
    count = *number;
  }
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

/// The input of a network that no run defines.
nn::NetworkInput free_input(const Call& call, const nn::Network& network, train::Options& options) {
  nn::NetworkInput input = nn::native_input(network.name()).value_or(nn::NetworkInput{});
  std::vector<std::string> given;
  for (const Setting& setting : call.settings) {
    if (!is_input_option(setting.name)) continue;
    set_field(options, setting.name, setting.text);
    given.push_back(setting.name);
  }
  options = train::with_expected_input(options, network, given);
  const std::string sequence = settings_of<ExportSettings>(call).sequence;
  if (!sequence.empty()) {
    const auto [channels, steps] = train::parse_size("sequence", sequence);
    return {.channels = channels, .height = 1, .width = 1, .classes = input.classes, .time_steps = steps};
  }
  if (input.time_steps > 0) return input;
  if (options.image_size != "auto")
    std::tie(input.height, input.width) = train::parse_size("image-size", options.image_size);
  if (options.color != train::Color::auto_) input.channels = options.color == train::Color::grey ? 1 : 3;
  return input;
}

int64_t classes_in(const nn::NamedTensors& state, const nn::Network& network) {
  const std::string head = nn::head_of(network) + ".weight";
  for (const auto& [name, tensor] : state) {
    if (name == head && tensor.dim() > 0 && tensor.size(0) > 0) return tensor.size(0);
  }
  throw Error(ErrorCode::corrupt_data,
              "the weights are not of network \"" + network.name() + "\": there is no \"" + head + "\"",
              "name the network of the weights");
}

/// A network for sequences with weights, or any network without.
train::Model model_without_run(const Call& call, const nn::Network& network, const ModelChoice& choice) {
  train::Options options;
  train::Model model;
  model.network = network;
  model.input = free_input(call, network, options);
  model.resize = options.resize;
  if (!options.resize_to.empty()) {
    const auto [height, width] = train::parse_size("resize-to", options.resize_to);
    model.resize_to = {height, width};
  }
  if (choice.weights != "last") {
    train::check_weights_are_there(network, choice.weights);
    model.state = nn::read_weights(choice.weights).tensors;
    model.input.classes = classes_in(model.state, network);
  }
  model.classes = classes_of(choice.classes, model.input.classes);
  if (choice.weights == "last") model.input.classes = static_cast<int64_t>(model.classes.size());
  if (static_cast<int64_t>(model.classes.size()) != model.input.classes)
    throw Error(ErrorCode::invalid_option, "the weights distinguish " +
                                               counted(model.input.classes, "class") + ", but " +
                                               counted_given(std::ssize(model.classes), "name"));
  if (choice.classes.empty() || parse_number<int64_t>(choice.classes)) model.classes.clear();
  if (options.normalize != "auto") {
    const auto normalization = train::parse_normalization(options.normalize, model.input.channels);
    model.mean = normalization.mean;
    model.deviation = normalization.deviation;
  }
  return model;
}

}  // namespace

onnx::TrainedNetwork open_exported(const Call& call, Console& console, NeedsWeights needs) {
  const std::string& name = call.words.front();
  const auto choice = settings_of<ModelChoice>(call);
  const bool network = nn::native_input(name).has_value() || name.ends_with(".json");
  if (!network) {
    std::error_code none;
    if (!std::filesystem::exists(name, none)) throw no_network(name);
    if (needs == NeedsWeights::no && std::filesystem::is_directory(name))
      return trained(train::untrained_model_of_run(name));
    return trained(open_model(call, console));
  }
  const nn::Network read = nn::find_network(name);
  const bool sequences = !settings_of<ExportSettings>(call).sequence.empty() ||
                         nn::native_input(name).value_or(nn::NetworkInput{}).time_steps > 0;
  if (choice.weights != "last" && !sequences) {
    train::Model model = open_model(call, console);
    if (choice.classes.empty()) model.classes.clear();  // only numbers
    return trained(model);
  }
  train::Model model = model_without_run(call, read, choice);
  if (needs == NeedsWeights::no) return trained(model, asked_input(call, read));
  if (choice.weights == "last") {
    console.note(
        "note: these are initial weights of seed 0, because no trained ones are named; to name them: "
        "--weights FILE, or a run folder\n");
    train::NetworkPlan plan;
    plan.input = model.input;
    model.state = nn::state_of(*train::first_instance(read, plan, kSeed).module);
  }
  return trained(model);
}

}  // namespace lockstep::cli
