// --mini-batch-size: a number, or auto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/describe.h"

namespace lockstep::train {

/// Samples in a step, as they were asked for; 0 is auto: the largest that fits (fitting_batch.h), which the
/// plan has.
class MiniBatchSize {
 public:
  constexpr MiniBatchSize(int64_t samples = 0)
      : samples_(samples) {}                               // NOLINT: it is a number wherever it is used
  constexpr operator int64_t() const { return samples_; }  // NOLINT
  constexpr bool is_auto() const { return samples_ == 0; }

 private:
  int64_t samples_;
};

// What base/describe.h asks of the type of a field.
std::string text_of(const MiniBatchSize& value);
void parse(std::string_view name, std::string_view text, FieldTraits limits, MiniBatchSize& value);
void read(std::string_view name, const Json& json, FieldTraits limits, MiniBatchSize& value);
/// A number, or "auto".
void to_json(Json& json, const MiniBatchSize& value);

}  // namespace lockstep::train

template <>
inline std::string lockstep::describe_detail::type_of<lockstep::train::MiniBatchSize>() {
  return "N|auto";
}
