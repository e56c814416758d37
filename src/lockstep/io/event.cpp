#include "lockstep/io/event.h"

#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep::io {
namespace {

void name_non_finite(Json& json) {
  if (json.is_structured()) {
    for (Json& item : json) name_non_finite(item);
  } else if (json.is_number_float()) {
    const double value = json.get<double>();
    if (std::isnan(value)) json = "nan";
    if (std::isinf(value)) json = value > 0 ? "inf" : "-inf";
  }
}

const Json* value_of(const Event& event, std::string_view key) {
  if (!event.values.is_object()) return nullptr;
  const auto found = event.values.find(std::string(key));
  return found == event.values.end() ? nullptr : &*found;
}

}  // namespace

std::string to_line(const Event& event) {
  Json json = Json::object();
  json["kind"] = event.kind;
  json["step"] = event.step;
  json["epoch"] = event.epoch;
  json["time"] = event.time;
  json["rank"] = event.rank;
  json["attempt"] = event.attempt;
  json["sequence"] = event.sequence;
  json["values"] = event.values;
  name_non_finite(json);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Event from_line(std::string_view line) {
  try {
    const Json json = parse_json(line);
    Event event;
    event.kind = json.at("kind").get<std::string>();
    event.step = json.at("step").get<int64_t>();
    event.epoch = json.value("epoch", int64_t{0});
    event.time = json.value("time", 0.0);
    event.rank = json.value("rank", int64_t{0});
    event.attempt = json.value("attempt", int64_t{0});
    event.sequence = json.value("sequence", int64_t{0});
    event.values = json.value("values", Json::object());
    return event;
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt_data, std::string("an event of the run cannot be read: ") + error.what(), "move the damaged file of events away; what it tells is then missing");
  }
}

double number(const Event& event, std::string_view key, double fallback) {
  const Json* value = value_of(event, key);
  if (value == nullptr) return fallback;
  if (value->is_number()) return value->get<double>();
  if (value->is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value->is_string()) return fallback;
  const std::string& word = value->get_ref<const std::string&>();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (word == "inf") return std::numeric_limits<double>::infinity();
  if (word == "-inf") return -std::numeric_limits<double>::infinity();
  return fallback;
}

std::string text(const Event& event, std::string_view key, std::string_view fallback) {
  const Json* value = value_of(event, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string(fallback);
}

bool flag(const Event& event, std::string_view key) {
  const Json* value = value_of(event, key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

}  // namespace lockstep::io
