#include "lockstep/sweep/space.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "lockstep/base/blanks.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::sweep {
namespace {

constexpr size_t kMostParameters = 1000;
constexpr size_t kMostChoices = 100'000;
constexpr double kMostWhole = 0x1p53;  // below which a double holds every whole number
constexpr const char* kHint =
    "write a range, 0.001..0.1 or 0.001..0.1:log or 1..5, or a list of choices, a,b,c; :when=OTHER=VALUE at "
    "the end makes it conditional";

[[noreturn]] void refuse(std::string_view name, const std::string& why) {
  throw Error(ErrorCode::invalid_option, "parameter " + quote(name) + " cannot be searched: " + why, kHint);
}

bool is_whole(std::string_view text) { return parse_number<int64_t>(text).has_value(); }

double bound_of(std::string_view name, std::string_view text) {
  const std::optional<double> value = parse_number<double>(text);
  if (!value || !std::isfinite(*value)) refuse(name, quote(text) + " is no number");
  return *value;
}

// Takes ":when=OTHER=A|B" off the end.
std::string_view take_condition(std::string_view text, Parameter& parameter) {
  constexpr std::string_view kWhen = ":when=";
  const size_t at = text.rfind(kWhen);
  if (at == std::string_view::npos) return text;
  const std::string_view condition = text.substr(at + kWhen.size());
  const size_t sign = condition.find('=');
  if (sign == std::string_view::npos || sign == 0 || sign + 1 == condition.size())
    refuse(parameter.name, "its condition " + quote(condition) + " is not OTHER=VALUE");
  parameter.when = condition.substr(0, sign);
  parameter.values = split(condition.substr(sign + 1), '|');
  return text.substr(0, at);
}

void read_range(std::string_view text, Parameter& parameter) {
  if (text.ends_with(":log")) {
    parameter.log = true;
    text.remove_suffix(4);
  }
  const size_t dots = text.find("..");
  const std::string_view low = text.substr(0, dots), high = text.substr(dots + 2);
  if (const size_t colon = high.find(':'); colon != std::string_view::npos)
    refuse(parameter.name, quote(high.substr(colon)) +
                               " cannot follow a range, only :log and :when can; write "
                               "the values of a range with steps as a list, 1,3,5");
  parameter.kind = is_whole(low) && is_whole(high) ? ParameterKind::integer : ParameterKind::real;
  parameter.low = bound_of(parameter.name, low);
  parameter.high = bound_of(parameter.name, high);
}

// "0.001-0.1" and "0.001:0.1", as ranges are often written; "16:9" is a ratio.
bool is_range_with_another_sign(std::string_view text) {
  const std::vector<std::string> parts = split(text, ':');
  const auto is_number = [](const std::string& part) { return parse_number<double>(part).has_value(); };
  if (parts.size() > 1 && std::ranges::all_of(parts, is_number) &&
      *parse_number<double>(parts.front()) < *parse_number<double>(parts.back()))
    return true;
  for (size_t dash = text.find('-', 1); dash != std::string_view::npos; dash = text.find('-', dash + 1)) {
    if (parse_number<double>(text.substr(0, dash)) && parse_number<double>(text.substr(dash + 1)))
      return true;
  }
  return false;
}

std::string text_in(const Json& json, std::string_view name) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_boolean() || json.is_number_integer()) return json.dump();
  if (json.is_number()) return shortest(json.get<double>());
  refuse(name, "a value must be a text, a number or a truth value, not " + json.dump().substr(0, 60));
}

std::vector<std::string> texts_in(const Json& json, std::string_view name) {
  std::vector<std::string> texts;
  if (!json.is_array()) return {text_in(json, name)};
  for (const Json& item : json) texts.push_back(text_in(item, name));
  return texts;
}

void read_object(const Json& json, Parameter& parameter) {
  for (const auto& [key, value] : json.items()) {
    if (key == "range") {
      if (!value.is_array() || value.size() != 2 || !value[0].is_number() || !value[1].is_number())
        refuse(parameter.name, "its range is not a list of two numbers");
      const bool whole = value[0].is_number_integer() && value[1].is_number_integer();
      parameter.kind = whole ? ParameterKind::integer : ParameterKind::real;
      parameter.low = value[0].get<double>();
      parameter.high = value[1].get<double>();
    } else if (key == "log" && value.is_boolean()) {
      parameter.log = value.get<bool>();
    } else if (key == "choices") {
      parameter.kind = ParameterKind::categorical;
      parameter.choices = texts_in(value, parameter.name);
    } else if (key == "when" && value.is_object() && value.size() == 1) {
      parameter.when = value.begin().key();
      parameter.values = texts_in(value.begin().value(), parameter.name);
      if (parameter.when.empty() || parameter.values.empty())
        refuse(parameter.name, "its condition names no parameter or no value");
    } else {
      refuse(parameter.name, "it has an unknown or wrong entry " + quote(key));
    }
  }
  if (!json.contains("range") && !json.contains("choices"))
    refuse(parameter.name, "it has neither a range nor choices");
  if (json.contains("range") && json.contains("choices"))
    refuse(parameter.name, "it has both a range and choices");
}

// A text where there is no finite number: JSON has no others.
Json json_number(const std::string& text) {
  if (const auto whole = parse_number<int64_t>(text)) return *whole;
  const auto number = parse_number<double>(text);
  return number && std::isfinite(*number) ? Json(*number) : Json(text);
}

// Whether JSON has a number that is written as the word and that readers with doubles keep.
bool is_json_number(const std::string& word) {
  constexpr auto kMost = static_cast<int64_t>(kMostWhole);
  if (const auto whole = parse_number<int64_t>(word); whole && (*whole > kMost || *whole < -kMost))
    return false;
  const Json number = json_number(word);
  return number.is_number() && number.dump() == word;
}

// The word of a choice is its value: 007 and 1e-3 are passed as they stand.
bool has_json_numbers(const Parameter& parameter) {
  return parameter.is_number() || std::ranges::all_of(parameter.choices, is_json_number);
}

void check_range(const Parameter& parameter) {
  if (!(parameter.low <= parameter.high))
    refuse(parameter.name, "its range begins at " + shortest(parameter.low) + " and ends before, at " +
                               shortest(parameter.high));
  if (!std::isfinite(parameter.high - parameter.low) ||
      std::max(std::abs(parameter.low), std::abs(parameter.high)) >= kMostWhole)
    refuse(parameter.name, "its range is too large");
  if (parameter.log && !(parameter.low > 0))
    refuse(parameter.name, "a logarithmic range must begin above 0, not at " + shortest(parameter.low));
  if (parameter.log && !std::isfinite(parameter.high / parameter.low))
    refuse(parameter.name, "its range is too large");
  if (parameter.kind == ParameterKind::integer &&
      (parameter.low != std::floor(parameter.low) || parameter.high != std::floor(parameter.high)))
    refuse(parameter.name, "its bounds are not whole numbers");
}

void check_choices(const Parameter& parameter) {
  if (parameter.choices.empty() || parameter.choices.size() > kMostChoices)
    refuse(parameter.name,
           "it has " + with_commas(static_cast<int64_t>(parameter.choices.size())) + " choices");
  std::vector<std::string> sorted = parameter.choices;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    refuse(parameter.name, "the choice " + quote(*twice) + " stands twice");
  if (parameter.log) refuse(parameter.name, "choices cannot be logarithmic");
}

std::string range_text(const Parameter& parameter) {
  std::string low = text_of(parameter, parameter.low), high = text_of(parameter, parameter.high);
  if (parameter.kind == ParameterKind::real && is_whole(low) && is_whole(high)) high += ".0";
  return low + ".." + high + (parameter.log ? ":log" : "");
}

}  // namespace

void Space::add(std::string_view name, std::string_view text) {
  Parameter parameter;
  parameter.name = name;
  text = take_condition(text, parameter);
  if (text.find("..") != std::string_view::npos && text.find(',') == std::string_view::npos &&
      text.find('/') == std::string_view::npos) {
    read_range(text, parameter);
  } else {
    parameter.kind = ParameterKind::categorical;
    for (const std::string& choice : split(text, ',')) parameter.choices.emplace_back(without_blanks(choice));
    if (is_range_with_another_sign(text))
      refuse(name, quote(text) + " is no range: its bounds have two points between them");
    if (std::ranges::find(parameter.choices, "") != parameter.choices.end())
      refuse(name, text.empty() ? "it has no values" : "a choice of " + quote(text) + " is empty");
  }
  add(std::move(parameter));
}

void Space::add(Parameter parameter) {
  if (parameter.name.empty() || parameter.name.find_first_of("= \t\n") != std::string::npos ||
      parameter.name.starts_with('-'))
    refuse(parameter.name, "a name has no blank, no = and no leading -");
  for (const Parameter& other : parameters_) {
    if (other.name == parameter.name) refuse(parameter.name, "it is named twice");
  }
  if (size() >= kMostParameters) refuse(parameter.name, "a space has at most 1,000 parameters");
  if (parameter.is_number()) {
    check_range(parameter);
  } else {
    check_choices(parameter);
  }
  if (!parameter.when.empty()) {
    const auto other = std::find_if(parameters_.begin(), parameters_.end(),
                                    [&](const Parameter& one) { return one.name == parameter.when; });
    if (other == parameters_.end() || other->is_number())
      refuse(parameter.name,
             "its condition names " + quote(parameter.when) + ", which is no earlier parameter with choices");
    for (const std::string& value : parameter.values) {
      if (std::find(other->choices.begin(), other->choices.end(), value) == other->choices.end())
        refuse(parameter.name, quote(value) + " is no choice of " + quote(parameter.when));
    }
  }
  parameters_.push_back(std::move(parameter));
}

bool Space::counts(size_t i, const Point& point) const {
  const Parameter& parameter = parameters_[i];
  if (parameter.when.empty()) return true;
  for (size_t j = 0; j < i; ++j) {
    if (parameters_[j].name != parameter.when) continue;
    if (std::isnan(point[j])) return false;
    const std::string& value = parameters_[j].choices[static_cast<size_t>(point[j])];
    return std::find(parameter.values.begin(), parameter.values.end(), value) != parameter.values.end();
  }
  return false;
}

Assignment Space::assignment(const Point& point) const {
  Assignment assignment;
  for (size_t i = 0; i < size(); ++i) {
    if (!std::isnan(point[i]))
      assignment.emplace_back(parameters_[i].name, text_of(parameters_[i], point[i]));
  }
  return assignment;
}

Json Space::json_of(const Assignment& assignment) const {
  Json json = Json::object();
  for (const auto& [name, text] : assignment) {
    const auto parameter = std::ranges::find(parameters_, name, &Parameter::name);
    const bool is_known = parameter != parameters_.end();
    json[name] = is_known && has_json_numbers(*parameter) ? json_number(text) : Json(text);
  }
  return json;
}

std::vector<std::string> Space::words_of(const Point& point) const {
  std::vector<std::string> words;
  for (const auto& [name, value] : assignment(point)) words.push_back(name + "=" + value);
  return words;
}

std::optional<Point> Space::point_of(const std::vector<std::string>& words) const {
  Point point(size(), kAbsent);
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('=')), text = word.substr(name.size());
    const auto parameter = std::find_if(parameters_.begin(), parameters_.end(),
                                        [&](const Parameter& one) { return one.name == name; });
    if (parameter == parameters_.end() || text.empty()) return std::nullopt;
    double& value = point[static_cast<size_t>(parameter - parameters_.begin())];
    if (parameter->is_number()) {
      const auto number = parse_number<double>(text.substr(1));
      if (!number || !(parameter->low <= *number && *number <= parameter->high)) return std::nullopt;
      value = *number;
    } else {
      const auto choice = std::find(parameter->choices.begin(), parameter->choices.end(), text.substr(1));
      if (choice == parameter->choices.end()) return std::nullopt;
      value = static_cast<double>(choice - parameter->choices.begin());
    }
  }
  for (size_t i = 0; i < size(); ++i) {
    if (counts(i, point) == std::isnan(point[i])) return std::nullopt;
  }
  return point;
}

Json Space::to_json() const {
  Json json = Json::object();
  for (const Parameter& parameter : parameters_) {
    Json& one = json[parameter.name] = Json::object();
    if (!parameter.is_number()) {
      one["choices"] = parameter.choices;
    } else if (parameter.kind == ParameterKind::integer) {
      one["range"] = {static_cast<int64_t>(parameter.low), static_cast<int64_t>(parameter.high)};
    } else {
      one["range"] = {parameter.low, parameter.high};
    }
    if (parameter.log) one["log"] = true;
    if (!parameter.when.empty()) one["when"] = {{parameter.when, parameter.values}};
  }
  return json;
}

Space Space::from_json(const Json& json) {
  if (!json.is_object())
    throw Error(ErrorCode::invalid_option, "the parameters of a sweep are not a JSON object", kHint);
  Space space;
  for (const auto& [name, value] : json.items()) {
    if (value.is_string()) {
      space.add(name, value.get<std::string>());
      continue;
    }
    Parameter parameter;
    parameter.name = name;
    if (value.is_object()) {
      read_object(value, parameter);
    } else {
      parameter.kind = ParameterKind::categorical;
      parameter.choices = texts_in(value, name);
    }
    space.add(std::move(parameter));
  }
  return space;
}

std::string text_of(const Parameter& parameter) {
  std::string text = parameter.is_number() ? range_text(parameter) : join(parameter.choices, ",");
  if (!parameter.when.empty()) text += ":when=" + parameter.when + "=" + join(parameter.values, "|");
  return text;
}

std::string text_of(const Parameter& parameter, double value) {
  if (parameter.kind == ParameterKind::categorical) return parameter.choices[static_cast<size_t>(value)];
  if (parameter.kind == ParameterKind::integer) return std::to_string(static_cast<int64_t>(value));
  return shortest(value);
}

}  // namespace lockstep::sweep
