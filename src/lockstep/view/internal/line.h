// A line of terminal text that knows its width, with or without colours.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::view {

enum class Tint { plain, dim, strong, train, held_out, good, warning };

std::string padded_left(std::string_view text, int width);
std::string padded_right(std::string_view text, int width);

class Line {
 public:
  explicit Line(bool colour = false) : colour_(colour) {}
  Line& add(std::string_view text, Tint tint = Tint::plain);
  Line& space(int count);
  Line& append(const Line& other);
  const std::string& text() const { return text_; }
  int width() const { return width_; }

 private:
  std::string text_;
  int width_ = 0;
  bool colour_;
};

}  // namespace lockstep::view
