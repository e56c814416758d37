#include "lockstep/train/options/learning_rate.h"

#include <array>

#include "lockstep/train/options/number_or_word.h"

namespace lockstep::train {
namespace {

constexpr std::array<NumberWord<double>, 1> kRateWords{{{"auto", LearningRate::automatic()}}};

}  // namespace

std::string text_of(const LearningRate& value) { return text_of<double>(value, kRateWords); }

void parse(std::string_view name, std::string_view text, FieldTraits limits, LearningRate& value) {
  value = parse_number_or_word<double>(name, text, limits, kRateWords);
}

void read(std::string_view name, const Json& json, FieldTraits limits, LearningRate& value) {
  parse(name, json.is_string() ? json.get<std::string>() : json.dump(), limits, value);
}

void to_json(Json& json, const LearningRate& value) {
  number_or_word_to_json<double>(json, value, kRateWords);
}

}  // namespace lockstep::train
