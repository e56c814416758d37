#include "lockstep/view/internal/line.h"

#include <algorithm>

#include "lockstep/base/text.h"

namespace lockstep::view {
namespace {

// Of the 256 colours, those that are readable on dark and on light backgrounds.
std::string_view code_of(Tint tint) {
  switch (tint) {
    case Tint::plain:
      return "";
    case Tint::dim:
      return "\x1b[38;5;244m";
    case Tint::strong:
      return "\x1b[1m";
    case Tint::train:
      return "\x1b[38;5;68m";
    case Tint::held_out:
      return "\x1b[38;5;172m";
    case Tint::good:
      return "\x1b[38;5;71m";
    case Tint::warning:
      return "\x1b[38;5;178m";
  }
  return "";
}

}  // namespace

std::string padded_left(std::string_view text, int width) {
  return std::string(static_cast<size_t>(std::max(0, width - width_of(text))), ' ') + std::string(text);
}

std::string padded_right(std::string_view text, int width) {
  return std::string(text) + std::string(static_cast<size_t>(std::max(0, width - width_of(text))), ' ');
}

Line& Line::add(std::string_view text, Tint tint) {
  if (text.empty()) return *this;
  const bool tinted = colour_ && tint != Tint::plain;
  if (tinted) text_ += code_of(tint);
  text_ += text;
  if (tinted) text_ += "\x1b[0m";
  width_ += width_of(text);
  return *this;
}

Line& Line::space(int count) { return add(std::string(static_cast<size_t>(std::max(0, count)), ' ')); }

Line& Line::append(const Line& other) {
  text_ += other.text_;
  width_ += other.width_;
  return *this;
}

}  // namespace lockstep::view
