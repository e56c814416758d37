#include "lockstep/train/options/mini_batch_size.h"

#include <array>

#include "lockstep/train/options/number_or_word.h"

namespace lockstep::train {
namespace {

constexpr std::array<NumberWord<int64_t>, 1> kMiniBatchWords{{{"auto", 0}}};

}  // namespace

std::string text_of(const MiniBatchSize& value) { return text_of<int64_t>(value, kMiniBatchWords); }

void parse(std::string_view name, std::string_view text, FieldTraits limits, MiniBatchSize& value) {
  value = parse_number_or_word<int64_t>(name, text, limits, kMiniBatchWords);
}

void read(std::string_view name, const Json& json, FieldTraits limits, MiniBatchSize& value) {
  parse(name, json.is_string() ? json.get<std::string>() : json.dump(), limits, value);
}

void to_json(Json& json, const MiniBatchSize& value) {
  number_or_word_to_json<int64_t>(json, value, kMiniBatchWords);
}

}  // namespace lockstep::train
