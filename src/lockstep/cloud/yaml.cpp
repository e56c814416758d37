#include "lockstep/cloud/yaml.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "lockstep/base/text.h"

namespace lockstep::cloud {
namespace {

// Words that YAML 1.1 takes for something else.
constexpr std::array<std::string_view, 9> kWords{"true", "false", "yes", "no", "on", "off", "null", "y", "n"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// A letter first, so that it is no number, date or directive.
bool is_plain(const std::string& text) {
  if (text.empty() || !is_letter(text.front())) return false;
  const std::string small = lower(text);
  if (std::find(kWords.begin(), kWords.end(), small) != kWords.end()) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') ||
           std::string_view("-_./").find(c) != std::string_view::npos;
  });
}

std::string scalar(const Json& json) {
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    return is_plain(text) ? text : json.dump(-1, ' ', true, Json::error_handler_t::replace);
  }
  return json.dump();
}

void write(const Json& json, size_t indent, std::string& out);

void write_value(const Json& value, size_t indent, std::string& out) {
  if (value.is_structured() && !value.empty()) {
    out += "\n";
    write(value, indent, out);
  } else {
    out += " " + (value.is_structured() ? value.dump() : scalar(value)) + "\n";
  }
}

void write(const Json& json, size_t indent, std::string& out) {
  const std::string margin(indent, ' ');
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      out += margin + scalar(Json(key)) + ":";
      write_value(value, indent + 2, out);
    }
    return;
  }
  for (const Json& item : json) {
    std::string text;
    if (item.is_structured() && !item.empty()) {
      write(item, indent + 2, text);
      text.replace(indent, 2, "- ");  // the first key stands beside the dash
      out += text;
    } else {
      out += margin + "-";
      write_value(item, indent + 2, out);
    }
  }
}

}  // namespace

std::string to_yaml(const Json& json) {
  if (!json.is_structured() || json.empty())
    return json.is_structured() ? json.dump() + "\n" : scalar(json) + "\n";
  std::string out;
  write(json, 0, out);
  return out;
}

}  // namespace lockstep::cloud
