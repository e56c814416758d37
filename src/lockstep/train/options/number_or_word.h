// The text of options that are a number or a word, such as --mini-batch-size 128|auto.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lockstep/base/describe.h"
#include "lockstep/base/error.h"

namespace lockstep::train {

/// A word in place of a number, and the number that stands for it in memory.
template <typename Number>
struct NumberWord {
  const char* word;
  Number number;
};

template <typename Number>
std::string text_of(Number value, std::span<const NumberWord<Number>> words) {
  for (const NumberWord<Number>& known : words) {
    if (value == known.number) return known.word;
  }
  return describe_detail::as_text(value);
}

/// Throws invalid_option if `text` is neither one of the words nor a number within the limits.
template <typename Number>
Number parse_number_or_word(std::string_view name, std::string_view text, const FieldTraits& limits,
                            std::span<const NumberWord<Number>> words) {
  std::string all;
  for (const NumberWord<Number>& known : words) {
    if (text == known.word) return known.number;
    all += (&known == &words.back() ? " or " : ", ") + std::string(known.word);
  }
  Number value = 0;
  try {
    describe_detail::parse(name, text, limits, value);
  } catch (const Error& error) {
    throw Error(error.code(), error.message() + (words.size() == 1 ? "," : "") + all);
  }
  return value;
}

template <typename Number>
void number_or_word_to_json(Json& json, Number value, std::span<const NumberWord<Number>> words) {
  for (const NumberWord<Number>& known : words) {
    if (value == known.number) {
      json = std::string(known.word);
      return;
    }
  }
  json = value;
}

}  // namespace lockstep::train
