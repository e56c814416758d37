// --learning-rate: a number, or auto.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "lockstep/base/describe.h"

namespace lockstep::train {

/// The initial learning rate, as it was asked for. 0: not given, a default or the recipe decides. auto: a
/// test of rising rates in the first steps (update/rate_test.h). C++ programs write LearningRate::automatic()
/// for auto; a negative number is refused as it is on the command line.
class LearningRate {
 public:
  constexpr LearningRate(double rate = 0) : rate_(rate) {}  // NOLINT: it is a number wherever it is used
  static constexpr LearningRate automatic() { return kAuto; }

  constexpr operator double() const { return rate_; }  // NOLINT
  constexpr bool is_auto() const { return rate_ == kAuto; }

 private:
  static constexpr double kAuto = -std::numeric_limits<double>::infinity();  // asked for by no number
  double rate_;
};

// What base/describe.h asks of the type of a field.
std::string text_of(const LearningRate& value);
void parse(std::string_view name, std::string_view text, FieldTraits limits, LearningRate& value);
void read(std::string_view name, const Json& json, FieldTraits limits, LearningRate& value);
/// A number, or "auto".
void to_json(Json& json, const LearningRate& value);

}  // namespace lockstep::train

template <>
inline std::string lockstep::describe_detail::type_of<lockstep::train::LearningRate>() {
  return "number|auto";
}
