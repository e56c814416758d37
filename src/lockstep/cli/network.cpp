#include <algorithm>
#include <array>
#include <filesystem>
#include <tuple>

#include <ATen/Parallel.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/help.h"
#include "lockstep/cli/no_network.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/nn/layer_times.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/surgery.h"
#include "lockstep/train/inference/predict.h"
#include "lockstep/train/step/first_instance.h"

namespace lockstep::cli {
namespace {

/// What is shown: a network and its input.
struct Shown {
  nn::Network network;
  nn::NetworkInput input;
  std::vector<std::string> classes = {};  ///< empty unless a run folder was given
  bool assumes_classes = false;           ///< the file of a network does not say how many there are
};

constexpr size_t kMostClassesShown = 20;
constexpr const char* kImageSizeForm = "HxW, such as 28x28";

std::pair<int64_t, int64_t> two_numbers(const std::string& option, const std::string& text,
                                        const std::string& form) {
  if (const auto sizes = nn::two_sizes(text)) return *sizes;
  throw Error(ErrorCode::invalid_option,
              "option --" + option + " cannot be \"" + text + "\": it must be " + form);
}

// The default input of a built-in network, or of a file that states its image size. Other networks are shown
// for small grey images.
nn::NetworkInput own_input(const nn::Network& network, const std::string& name) {
  if (const auto native = nn::native_input(name)) return *native;
  train::with_expected_input({}, network, {});  // refuses what train would refuse
  return nn::sized_as_expected(nn::expected_input(network), {});
}

nn::NetworkInput input_of(const InputChoice& choice, nn::NetworkInput input) {
  if (!choice.sequence.empty()) {
    const auto [channels, steps] = two_numbers("sequence", choice.sequence, "CxT, such as 12x29");
    input = {.channels = channels, .height = 1, .width = 1, .classes = input.classes, .time_steps = steps};
  } else if (choice.image_size != "auto") {
    if (input.time_steps > 0) input = {.classes = input.classes};
    std::tie(input.height, input.width) = two_numbers("image-size", choice.image_size, kImageSizeForm);
  }
  if (choice.color != InputColor::auto_ && input.time_steps == 0)
    input.channels = choice.color == InputColor::grey ? 1 : 3;
  if (choice.classes > 0) input.classes = choice.classes;
  return input;
}

Shown shown_by(const Call& call) {
  const auto choice = settings_of<InputChoice>(call);
  const std::string& name = call.words.front();
  if (nn::native_input(name) || !std::filesystem::is_directory(name)) {
    if (!name.ends_with(".json") && nearest(name, nn::builtin_network_names()).empty())
      throw no_network(name);
    const nn::Network network = nn::find_network(name);
    return {.network = network,
            .input = input_of(choice, own_input(network, name)),
            .assumes_classes = !nn::native_input(name) && choice.classes == 0};
  }
  for (const std::string& option : field_names<InputChoice>()) {
    if (call.text_of(option))
      throw Error(
          ErrorCode::invalid_option,
          "--" + option + " applies to a network given by its name or file; a run folder defines its own",
          "remove --" + option);
  }
  const train::Model model = train::untrained_model_of_run(name);
  return {.network = model.network, .input = model.input, .classes = model.classes};
}

std::string input_text(const nn::NetworkInput& input) {
  if (input.time_steps > 0)
    return sizes_cell(std::array{input.channels, input.time_steps}) + " (channels, time steps), " +
           counted(input.classes, "class");
  return sizes_cell(std::array{input.channels, input.height, input.width}) + " (channels, height, width), " +
         counted(input.classes, "class");
}

std::string classes_text(const std::vector<std::string>& classes) {
  if (classes.empty()) return "";
  const std::vector<std::string> first(
      classes.begin(),
      classes.begin() + static_cast<std::ptrdiff_t>(std::min(classes.size(), kMostClassesShown)));
  const size_t more = classes.size() - first.size();
  return "classes: " + printable(join(first, ", ")) +
         (more > 0 ? " and " + with_commas(static_cast<int64_t>(more)) + " more" : "") + "\n";
}

// On a terminal, the table is split where it would wrap; elsewhere its lines stay whole.
std::string network_text(const Shown& shown, const nn::NetworkTable& table, int width) {
  const std::string head = shown.network.name() + ", input " + input_text(shown.input) +
                           (shown.assumes_classes ? " assumed; --classes N shows it for N" : "") + "\n" +
                           classes_text(shown.classes) + "\n";
  const std::string whole = nn::network_table_text(table);
  const std::vector<std::string> lines = split(whole, '\n');
  if (width == 0 || std::all_of(lines.begin(), lines.end(),
                                [&](const std::string& line) { return width_of(line) <= width; }))
    return head + whole;
  return head + in_columns_within(width, nn::network_table_cells(table), "lllllll") + "\n" +
         wrap(nn::network_totals_text(table), width, 0);
}

// One core, as a worker has.
std::vector<nn::LayerTime> times_of(const Shown& shown, int64_t samples) {
  if (samples == 0) return {};
  at::set_num_threads(1);
  return nn::layer_times(shown.network, shown.input, samples);
}

double seconds_of_layers(const std::vector<nn::LayerTime>& times) {
  double seconds = 0;
  for (const nn::LayerTime& time : times) seconds += time.forward_seconds + time.backward_seconds;
  return seconds;
}

std::string times_text(const nn::NetworkTable& table, const std::vector<nn::LayerTime>& times,
                       int64_t samples) {
  if (times.empty()) return "";
  const double all = seconds_of_layers(times);
  std::vector<std::vector<std::string>> rows{{"layer", "forward", "backward", "share"}};
  for (size_t i = 0; i < times.size(); ++i) {
    const auto [forward, backward] = times[i];
    rows.push_back({table.rows[i].name, fixed(forward * 1e3, 2) + " ms", fixed(backward * 1e3, 2) + " ms",
                    fixed(all > 0 ? 100 * (forward + backward) / all : 0, 1) + " %"});
  }
  return "\nTime of a step of " + counted(samples, "sample") + " on one core: " + fixed(all * 1e3, 1) +
         " ms\n" + in_columns(rows, "lrrr");
}

void add_times(Json& json, const std::vector<nn::LayerTime>& times) {
  for (size_t i = 0; i < times.size(); ++i)
    json["layers"][i].update(
        {{"forward_seconds", times[i].forward_seconds}, {"backward_seconds", times[i].backward_seconds}});
}

Json network_json(const Shown& shown, const nn::NetworkTable& table) {
  const nn::NetworkInput& input = shown.input;
  Json json{{"name", shown.network.name()},
            {"input",
             {{"channels", input.channels},
              {"height", input.height},
              {"width", input.width},
              {"classes", input.classes}}},
            {"learnables", table.learnable_count()},
            {"state", table.state_count()}};
  if (input.time_steps > 0)
    json["input"] = {
        {"channels", input.channels}, {"time_steps", input.time_steps}, {"classes", input.classes}};
  Json& layers = json["layers"] = Json::array();
  for (const nn::LayerRow& row : table.rows) {
    layers.push_back({{"name", row.name},
                      {"type", row.type},
                      {"detail", row.detail},
                      {"inputs", row.inputs},
                      {"shape", row.shape},
                      {"learnables", row.learnable_count},
                      {"state", row.state_count}});
  }
  if (!shown.classes.empty()) json["classes"] = shown.classes;
  json["graph"] = shown.network.spec();
  return json;
}

std::vector<std::string> list_row(const std::string& name) {
  const nn::NetworkInput input = nn::native_input(name).value();
  return {name, with_commas(nn::inspect_network(nn::find_network(name), input).learnable_count()),
          input_text(input)};
}

}  // namespace

int run_network_show(const Call& call, Console& console) {
  const Shown shown = shown_by(call);
  const nn::NetworkTable table = nn::inspect_network(shown.network, shown.input);
  const int64_t samples = settings_of<TimeChoice>(call).time;
  const std::vector<nn::LayerTime> times = times_of(shown, samples);
  if (settings_of<JsonOutput>(call).json) {
    Json json = network_json(shown, table);
    add_times(json, times);
    console.print(json.dump(2) + "\n");
    return 0;
  }
  console.print(network_text(shown, table, console.table_width()) + times_text(table, times, samples));
  return 0;
}

int run_network_list(const Call&, Console& console) {
  std::vector<std::vector<std::string>> rows{{"network", "learnables", "for input"}};
  for (const std::string& name : nn::builtin_network_names()) rows.push_back(list_row(name));
  console.print(in_columns_within(console.table_width(), rows, "lrl"));
  return 0;
}

}  // namespace lockstep::cli
