#include "lockstep/train/options/image_size.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

constexpr int64_t kLargestSide = 8192;

}  // namespace

std::pair<int64_t, int64_t> parse_size(const std::string& option, const std::string& text) {
  const auto parts = split(text, 'x');
  const auto number = [](const std::string& side) {
    const auto value = parse_number<int64_t>(side);
    return value && *value >= 1 && *value <= kLargestSide ? *value : 0;
  };
  const std::pair<int64_t, int64_t> size =
      parts.size() == 2 ? std::pair(number(parts[0]), number(parts[1])) : std::pair<int64_t, int64_t>();
  if (size.first > 0 && size.second > 0) return size;
  throw Error(ErrorCode::invalid_option,
              "option --" + option + " cannot be \"" + text + "\": it must be " +
                  (option == "image-size" ? "auto or " : "") + "HEIGHTxWIDTH, each from 1 to 8192",
              "for example --" + option + " 28x28");
}

}  // namespace lockstep::train
