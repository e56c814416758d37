// What a described field (describe.h) says besides its name and help: the values a number may have, another
// name, and what the option affects.
#pragma once

#include <limits>
#include <string_view>

namespace lockstep {

/// What an option affects. Only options that do not affect the weights may change when a run is resumed.
enum class Affects {
  unstated,  ///< no option of a training
  weights,   ///< the weights that a run ends with, or which of them are the best
  place,     ///< where the run computes and keeps its data, and how fast
  end,       ///< when the run ends
  record,    ///< what is printed, saved or measured
};

/// The values that a number may have, another name of the field, and what it affects.
struct FieldTraits {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;
  const char* alias =
      nullptr;  ///< another name that command line and JSON take; what is written has the field's own
  Affects affects = Affects::unstated;
  const char* alone = nullptr;  ///< the value of an option that a command line gives without one
  bool (*knows)(std::string_view) = nullptr;  ///< with `alone`: whether a word is one of its usual values
};
constexpr FieldTraits at_least(double low) { return {.low = low}; }
constexpr FieldTraits above(double low) { return {.low = low, .above_low = true}; }
constexpr FieldTraits above(double low, double high) { return {.low = low, .high = high, .above_low = true}; }
constexpr FieldTraits between(double low, double high) { return {.low = low, .high = high}; }
constexpr FieldTraits also(const char* alias, FieldTraits traits = {}) {
  traits.alias = alias;
  return traits;
}
/// The option may stand alone and then has this value. The word after it is its value if it is a usual one,
/// or if it is neither an option nor an existing file.
constexpr FieldTraits or_alone(const char* value, bool (*knows)(std::string_view)) {
  return {.alone = value, .knows = knows};
}

}  // namespace lockstep
