#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/help.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/nn/layers.h"

namespace lockstep::cli {
namespace {

enum class InputColor { grey, rgb };
constexpr std::array<const char*, 2> enum_names(InputColor) { return {"grey", "rgb"}; }

struct InputChoice {
  std::string image_size = "28x28";
  InputColor color = InputColor::grey;
  std::string sequence;
  int64_t classes = 10;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Input");
    field("image-size", self.image_size, "height and width of the images, HxW");
    field("color", self.color, "one channel, or three");
    field("sequence", self.sequence, "for sequences instead of images: channels and time steps of the longest, CxT, such as 12x29");
    field("classes", self.classes, "how many classes are told apart", at_least(2));
  };
};

std::pair<int64_t, int64_t> two_numbers(const std::string& option, const std::string& text, const std::string& form) {
  const std::vector<std::string> sides = split(text, 'x');
  const auto is_number = [](const std::string& side) { return !side.empty() && side.size() < 6 && side.find_first_not_of("0123456789") == std::string::npos && side[0] != '0'; };
  if (sides.size() != 2 || !is_number(sides[0]) || !is_number(sides[1])) {
    throw Error(ErrorCode::invalid_option, "option --" + option + " cannot be \"" + text + "\": it must be " + form);
  }
  return {std::stoll(sides[0]), std::stoll(sides[1])};
}

nn::NetworkInput input_of(const InputChoice& choice) {
  nn::NetworkInput input{.channels = choice.color == InputColor::grey ? 1 : 3, .classes = choice.classes};
  if (!choice.sequence.empty()) {
    const auto [channels, steps] = two_numbers("sequence", choice.sequence, "CxT, such as 12x29");
    return {.channels = channels, .height = 1, .width = 1, .classes = choice.classes, .steps = steps};
  }
  std::tie(input.height, input.width) = two_numbers("image-size", choice.image_size, "HxW, such as 28x28");
  return input;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> sides;
  for (const int64_t side : shape) sides.push_back(std::to_string(side));
  return join(sides, "x");
}

std::string input_text(const nn::NetworkInput& input) {
  if (input.steps > 0) return shape_text({input.channels, input.steps}) + " (channels, time steps), " + with_commas(input.classes) + " classes";
  return shape_text({input.channels, input.height, input.width}) + " (channels, height, width), " + with_commas(input.classes) + " classes";
}

// On a terminal the table is cut where it would be folded; elsewhere its lines stay whole.
std::string as_text(const nn::Network& network, const nn::NetworkInput& input, const nn::NetworkTable& table, int width) {
  const std::string head = network.name() + ", input " + input_text(input) + "\n\n";
  const std::string whole = nn::network_table_text(table);
  const std::vector<std::string> lines = split(whole, '\n');
  if (width == 0 || std::all_of(lines.begin(), lines.end(), [&](const std::string& line) { return width_of(line) <= width; })) return head + whole;
  return head + in_columns_within(width, nn::network_table_cells(table), "lllllll") + "\n" + wrap(nn::network_totals_text(table), width, 0);
}

Json as_json(const nn::Network& network, const nn::NetworkInput& input, const nn::NetworkTable& table) {
  Json json{{"name", network.name()},
            {"input", {{"channels", input.channels}, {"height", input.height}, {"width", input.width}, {"classes", input.classes}}},
            {"learnables", table.learnable_count()},
            {"state", table.state_count()}};
  if (input.steps > 0) json["input"] = {{"channels", input.channels}, {"time_steps", input.steps}, {"classes", input.classes}};
  Json& layers = json["layers"] = Json::array();
  for (const nn::LayerRow& row : table.rows) {
    layers.push_back({{"name", row.name}, {"type", row.type}, {"detail", row.detail}, {"inputs", row.inputs}, {"shape", row.shape}, {"learnables", row.learnable_count}, {"state", row.state_count}});
  }
  json["graph"] = network.spec();
  return json;
}

// Small inputs first; the large networks have their own size.
constexpr std::array<nn::NetworkInput, 3> kListInputs{nn::NetworkInput{1, 28, 28, 10}, nn::NetworkInput{3, 224, 224, 1000}, nn::NetworkInput{12, 1, 1, 9, 29}};

std::vector<std::string> list_row(const std::string& name) {
  const nn::Network network = nn::find_network(name);
  for (const nn::NetworkInput& input : kListInputs) {
    try {
      return {name, with_commas(nn::inspect_network(network, input).learnable_count()), input_text(input)};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_option) throw;
    }
  }
  return {name, "-", "takes none of the usual inputs"};
}

}  // namespace

std::vector<FieldInfo> network_show_fields() { return fields_of<InputChoice>() + fields_of<JsonOutput>(); }

int run_network_show(const Call& call, Console& console) {
  const nn::NetworkInput input = input_of(settings_of<InputChoice>(call));
  const nn::Network network = nn::find_network(call.words.front());
  const nn::NetworkTable table = nn::inspect_network(network, input);
  console.print(settings_of<JsonOutput>(call).json ? as_json(network, input, table).dump(2) + "\n" : as_text(network, input, table, console.table_width()));
  return 0;
}

std::vector<FieldInfo> network_list_fields() { return {}; }

int run_network_list(const Call&, Console& console) {
  std::vector<std::vector<std::string>> rows{{"network", "learnables", "for input"}};
  for (const std::string& name : nn::builtin_network_names()) rows.push_back(list_row(name));
  console.print(in_columns(rows, "lrl"));
  return 0;
}

}  // namespace lockstep::cli
