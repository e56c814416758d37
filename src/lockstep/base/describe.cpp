#include "lockstep/base/describe.h"

#include "lockstep/base/text.h"

namespace lockstep::describe_detail {
namespace {

// A text from JSON has its quotes already.
[[noreturn]] void bad_value(std::string_view name, std::string_view value, const std::string& wanted) {
  const std::string shown =
      value.size() > 1 && value.starts_with('"') && value.ends_with('"') ? std::string(value) : quote(value);
  throw Error(ErrorCode::invalid_option,
              "option --" + std::string(name) + " cannot be " + shown + ": it must be " + wanted);
}

// Without an exponent: 10000000, not 1e+07. The greatest int64_t has no double of its own.
std::string plain(double value) {
  if (std::abs(value) > 1e19) return shortest(value);
  if (value == 0x1p63) return std::to_string(std::numeric_limits<int64_t>::max());
  std::array<char, 400> buffer{};  // the longest double has 309 digits before the point
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  return end.ec == std::errc() ? std::string(buffer.data(), end.ptr) : shortest(value);
}

std::string limits_text(const char* kind, FieldTraits limits) {
  std::string text = kind;
  const bool low = std::isfinite(limits.low);
  const bool high = std::isfinite(limits.high);
  if (low && high)
    return text + (limits.above_low ? " above " : " from ") + plain(limits.low) +
           (limits.above_low ? ", at most " : " to ") + plain(limits.high);
  if (low) return text + (limits.above_low ? " above " : " of at least ") + plain(limits.low);
  if (high) return text + " of at most " + plain(limits.high);
  return text;
}

bool within(double value, FieldTraits limits) {
  return std::isfinite(value) && value <= limits.high &&
         (limits.above_low ? value > limits.low : value >= limits.low);
}

template <class T>
bool read_number(std::string_view text, T& value) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const auto number = parse_number<T>(text);
  if (number) value = *number;
  return number.has_value();
}

}  // namespace

std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(int64_t value) { return std::to_string(value); }
std::string text_of(double value) { return shortest(value); }
std::string text_of(const std::string& value) { return value; }
std::string text_of(const std::vector<int64_t>& value) {
  std::string text;
  for (const int64_t item : value) text += (text.empty() ? "" : ",") + std::to_string(item);
  return text;
}
std::string text_of(const std::vector<std::string>& value) { return join(value, ","); }

void parse(std::string_view name, std::string_view text, FieldTraits, bool& value) {
  const std::string word = lower(text);
  if (word.empty() || word == "true" || word == "yes" || word == "on" || word == "1") {
    value = true;
  } else if (word == "false" || word == "no" || word == "off" || word == "0") {
    value = false;
  } else {
    bad_value(name, text, "true or false");
  }
}

void parse(std::string_view name, std::string_view text, FieldTraits limits, int64_t& value) {
  int64_t number = 0;
  if (!read_number(text, number) || !within(static_cast<double>(number), limits))
    bad_value(name, text, limits_text("a whole number", limits));
  value = number;
}

void parse(std::string_view name, std::string_view text, FieldTraits limits, double& value) {
  double number = 0;
  if (!read_number(text, number) || !within(number, limits))
    bad_value(name, text, limits_text("a number", limits));
  value = number;
}

void parse(std::string_view, std::string_view text, FieldTraits, std::string& value) { value = text; }

void parse(std::string_view name, std::string_view text, FieldTraits limits, std::vector<int64_t>& value) {
  std::vector<int64_t> numbers;
  if (!text.empty()) {
    for (const std::string& part : split(text, ',')) parse(name, part, limits, numbers.emplace_back());
  }
  value = std::move(numbers);
}

void parse(std::string_view, std::string_view text, FieldTraits, std::vector<std::string>& value) {
  value = text.empty() ? std::vector<std::string>{} : split(text, ',');
}

void read(std::string_view name, const Json& json, FieldTraits, bool& value) {
  if (!json.is_boolean()) bad_value(name, json.dump(), "true or false");
  value = json.get<bool>();
}

void read(std::string_view name, const Json& json, FieldTraits limits, int64_t& value) {
  if (!json.is_number_integer()) bad_value(name, json.dump(), limits_text("a whole number", limits));
  parse(name, json.dump(), limits, value);
}

void read(std::string_view name, const Json& json, FieldTraits limits, double& value) {
  // What JSON makes of a number that is none; where there are limits it fits none.
  if (json.is_null() && std::isinf(limits.low) && std::isinf(limits.high))
    return void(value = std::numeric_limits<double>::quiet_NaN());
  if (!json.is_number()) bad_value(name, json.dump(), limits_text("a number", limits));
  const double number = json.get<double>();
  if (!within(number, limits)) bad_value(name, json.dump(), limits_text("a number", limits));
  value = number;
}

void read(std::string_view name, const Json& json, FieldTraits, std::string& value) {
  if (!json.is_string()) bad_value(name, json.dump(), "a text");
  value = json.get<std::string>();
}

void read(std::string_view name, const Json& json, FieldTraits limits, std::vector<int64_t>& value) {
  if (!json.is_array()) bad_value(name, json.dump(), "a list of whole numbers");
  std::vector<int64_t> numbers;
  for (const Json& item : json) read(name, item, limits, numbers.emplace_back());
  value = std::move(numbers);
}

void read(std::string_view name, const Json& json, FieldTraits limits, std::vector<double>& value) {
  check_list(name, json);
  std::vector<double> numbers;
  for (const Json& item : json) read(name, item, limits, numbers.emplace_back());
  value = std::move(numbers);
}

void read(std::string_view name, const Json& json, FieldTraits, std::vector<std::string>& value) {
  check_list(name, json);
  std::vector<std::string> texts;
  for (const Json& item : json) texts.push_back(text_in(name, item));
  value = std::move(texts);
}

void check_list(std::string_view name, const Json& json) {
  if (!json.is_array()) bad_value(name, json.dump(), "a list");
}

size_t parse_choice(std::string_view name, std::string_view text, const std::vector<std::string>& choices) {
  for (size_t i = 0; i < choices.size(); ++i) {
    if (choices[i] == text) return i;
  }
  throw Error(ErrorCode::invalid_option,
              "option --" + std::string(name) + " cannot be \"" + std::string(text) +
                  "\": it must be one of " + join(choices, ", "),
              did_you_mean(text, choices));
}

std::string text_in(std::string_view name, const Json& json) {
  if (!json.is_string()) bad_value(name, json.dump(), "a text");
  return json.get<std::string>();
}

void unknown_field(std::string_view name, const std::vector<std::string>& known) {
  constexpr size_t kFew = 40;  // a program's own struct has fewer fields, train::Options has more
  const std::string found = nearest(name, known);
  const std::string all = known.size() > kFew ? "lockstep train --help lists all options"
                                              : "the options are: --" + join(known, ", --");
  throw Error(ErrorCode::invalid_option, "there is no option --" + std::string(name),
              found.empty() ? all : "did you mean --" + found + "?");
}

void given_twice(const char* field, const FieldTraits& traits) {
  throw Error(ErrorCode::invalid_option,
              std::string("option --") + field + " is given twice, also as --" + traits.alias,
              "leave out one of them");
}

void no_options() {
  throw Error(ErrorCode::invalid_option, "this is not a JSON object of options",
              "it must look like {\"max-epochs\": 5, \"optimizer\": \"adam\"}");
}

}  // namespace lockstep::describe_detail
