#include "lockstep/train/options/batch_norm_group.h"

#include <array>

#include "lockstep/train/options/number_or_word.h"

namespace lockstep::train {
namespace {

constexpr std::array<NumberWord<int64_t>, 2> kGroupWords{
    {{"auto", BatchNormGroup().samples()}, {"mini-batch", BatchNormGroup::mini_batch().samples()}}};

}  // namespace

std::string text_of(const BatchNormGroup& value) { return text_of<int64_t>(value.samples(), kGroupWords); }

void parse(std::string_view name, std::string_view text, FieldTraits limits, BatchNormGroup& value) {
  value = parse_number_or_word<int64_t>(name, text, limits, kGroupWords);
}

void read(std::string_view name, const Json& json, FieldTraits limits, BatchNormGroup& value) {
  parse(name, json.is_string() ? json.get<std::string>() : json.dump(), limits, value);
}

void to_json(Json& json, const BatchNormGroup& value) {
  number_or_word_to_json<int64_t>(json, value.samples(), kGroupWords);
}

}  // namespace lockstep::train
