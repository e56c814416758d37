#include "lockstep/train/options/mini_batch_size.h"

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

constexpr std::string_view kAuto = "auto";

}  // namespace

std::string text_of(const MiniBatchSize& value) {
  return value.is_auto() ? std::string(kAuto) : std::to_string(static_cast<int64_t>(value));
}

void parse(std::string_view name, std::string_view text, FieldTraits limits, MiniBatchSize& value) {
  if (text == kAuto) {
    value = 0;
    return;
  }
  int64_t samples = 0;
  try {
    describe_detail::parse(name, text, limits, samples);
  } catch (const Error& error) {
    throw Error(error.code(), error.message() + ", or auto");
  }
  value = samples;
}

void read(std::string_view name, const Json& json, FieldTraits limits, MiniBatchSize& value) {
  parse(name, json.is_string() ? json.get<std::string>() : json.dump(), limits, value);
}

void to_json(Json& json, const MiniBatchSize& value) {
  if (value.is_auto()) {
    json = std::string(kAuto);
  } else {
    json = static_cast<int64_t>(value);
  }
}

}  // namespace lockstep::train
