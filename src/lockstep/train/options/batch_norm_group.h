// --batch-norm-group: a number, auto or mini-batch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/base/describe.h"

namespace lockstep::train {

/// The samples over which batch norms normalise, as they were asked for.
class BatchNormGroup {
 public:
  constexpr BatchNormGroup(int64_t samples = kAuto) : samples_(samples) {}  // NOLINT: a number, mostly
  static constexpr BatchNormGroup mini_batch() { return kMiniBatch; }

  constexpr bool is_auto() const { return samples_ == kAuto; }
  constexpr bool is_mini_batch() const { return samples_ == kMiniBatch; }
  /// Only for a number.
  constexpr int64_t samples() const { return samples_; }

 private:
  static constexpr int64_t kAuto = 0;
  static constexpr int64_t kMiniBatch = -1;
  int64_t samples_;
};

// What base/describe.h asks of the type of a field.
std::string text_of(const BatchNormGroup& value);
void parse(std::string_view name, std::string_view text, FieldTraits limits, BatchNormGroup& value);
void read(std::string_view name, const Json& json, FieldTraits limits, BatchNormGroup& value);
/// A number, "auto" or "mini-batch".
void to_json(Json& json, const BatchNormGroup& value);

}  // namespace lockstep::train

template <>
inline std::string lockstep::describe_detail::type_of<lockstep::train::BatchNormGroup>() {
  return "N|auto|mini-batch";
}
