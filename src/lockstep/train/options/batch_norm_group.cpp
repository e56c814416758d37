#include "lockstep/train/options/batch_norm_group.h"

#include "lockstep/base/error.h"

namespace lockstep::train {

std::string text_of(const BatchNormGroup& value) {
  if (value.is_auto()) return "auto";
  return value.is_mini_batch() ? "mini-batch" : std::to_string(value.samples());
}

void parse(std::string_view name, std::string_view text, FieldTraits limits, BatchNormGroup& value) {
  for (const BatchNormGroup word : {BatchNormGroup(), BatchNormGroup::mini_batch()}) {
    if (text == text_of(word)) {
      value = word;
      return;
    }
  }
  int64_t samples = 0;
  try {
    describe_detail::parse(name, text, limits, samples);
  } catch (const Error& error) {
    throw Error(error.code(), error.message() + ", auto or mini-batch");
  }
  value = samples;
}

void read(std::string_view name, const Json& json, FieldTraits limits, BatchNormGroup& value) {
  parse(name, json.is_string() ? json.get<std::string>() : json.dump(), limits, value);
}

void to_json(Json& json, const BatchNormGroup& value) {
  if (value.is_auto() || value.is_mini_batch()) {
    json = text_of(value);
  } else {
    json = value.samples();
  }
}

}  // namespace lockstep::train
