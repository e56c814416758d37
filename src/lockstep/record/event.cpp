#include "lockstep/record/event.h"

#include <cmath>
#include <optional>

#include "lockstep/base/error.h"

namespace lockstep::record {
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

// The JSON library would silently convert a fraction, or a number that is too large.
int64_t count_in(const Json& json, const char* name, std::optional<int64_t> fallback = std::nullopt) {
  constexpr int64_t kMost = int64_t{1} << 53;  // readers compute with double
  const auto found = json.find(name);
  if (found == json.end() && fallback) return *fallback;
  const int64_t value = found != json.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
  if (value >= 0 && value <= kMost) return value;
  throw JsonError("\"" + std::string(name) + "\" is not a count");
}

// Differences of larger numbers would not be exact.
double drawable(double value) {
  constexpr double kMost = 1e300;
  return std::abs(value) > kMost ? std::copysign(std::numeric_limits<double>::infinity(), value) : value;
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
    event.step = count_in(json, "step");
    event.epoch = count_in(json, "epoch", 0);
    event.time = json.value("time", 0.0);
    event.rank = count_in(json, "rank", 0);
    event.attempt = count_in(json, "attempt", 0);
    event.sequence = count_in(json, "sequence", 0);
    event.values = json.value("values", Json::object());
    return event;
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::corrupt_data, std::string("cannot read an event of the run: ") + error.what(),
                "move the damaged event file away; its events are then missing");
  }
}

double number(const Event& event, std::string_view key, double fallback) {
  const Json* value = value_of(event, key);
  if (value == nullptr) return fallback;
  if (value->is_number()) return drawable(value->get<double>());
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

}  // namespace lockstep::record
