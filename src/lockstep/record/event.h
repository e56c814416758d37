// An event of a run. The terminal, plots, TensorBoard and programs that follow a run read only these events.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "lockstep/base/json.h"

namespace lockstep::record {

/// One event. event_kinds.h has the kinds and their values; readers ignore unknown ones.
struct Event {
  double time = 0;  ///< seconds since 1970
  int64_t rank = 0;
  int64_t attempt = 0;   ///< 0 for the first start, one more for each resume
  int64_t sequence = 0;  ///< number of the event within this rank and attempt
  int64_t epoch = 0;     ///< counts from 1; 0 before the first epoch
  int64_t step = 0;      ///< optimizer steps since the beginning of the run
  std::string kind;
  Json values = Json::object();
  std::string writer{};  ///< of the log that it was read from: "rank-0"; not written into the line
};

/// An observer's answer: stop ends the run after this step and keeps the weights.
enum class Control { go, stop };

/// Called on rank 0's thread between steps; must return quickly.
using Observer = std::function<Control(const Event&)>;

/// One line of JSON without the line break. Numbers that JSON cannot represent are written as the texts
/// "nan", "inf" and "-inf"; bytes that are not UTF-8 are replaced.
std::string to_line(const Event& event);

/// Reads a line written by to_line. Throws corrupt_data; unknown values are ignored.
Event from_line(std::string_view line);

/// A value as a number, also from the texts of to_line; beyond 1e300 it is infinite. NaN if it is null,
/// `fallback` if it is missing or not a number.
double number(const Event& event, std::string_view key,
              double fallback = std::numeric_limits<double>::quiet_NaN());

/// A value as text, or `fallback` if it is missing or not text.
std::string text(const Event& event, std::string_view key, std::string_view fallback = {});

/// A value as a boolean; false if it is missing.
bool flag(const Event& event, std::string_view key);

}  // namespace lockstep::record
