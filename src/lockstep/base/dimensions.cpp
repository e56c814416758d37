#include "lockstep/base/dimensions.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr std::string_view kLetters = "SCBTU";
constexpr std::string_view kOnce = "CBT";

}  // namespace

void check_dimensions(std::string_view labels) {
  for (const char letter : labels) {
    if (kLetters.find(letter) == std::string_view::npos) {
      throw Error(
          ErrorCode::invalid_option,
          "the dimensions " + quote(labels) + " have a letter " + quote({&letter, 1}),
          "S is a spatial dimension, C the channels, B the samples, T time, U any other, as in \"SSCB\"");
    }
    if (kOnce.find(letter) != std::string_view::npos &&
        std::count(labels.begin(), labels.end(), letter) > 1) {
      throw Error(ErrorCode::invalid_option,
                  "the dimensions " + quote(labels) + " have " + quote({&letter, 1}) + " twice",
                  "only S and U may stand more than once");
    }
  }
}

std::vector<int64_t> dimension_order(std::string_view from, std::string_view to) {
  check_dimensions(from);
  check_dimensions(to);
  if (!std::is_permutation(from.begin(), from.end(), to.begin(), to.end())) {
    throw Error(ErrorCode::invalid_option,
                "dimensions " + quote(from) + " cannot be put in the order " + quote(to),
                "both must have the same letters");
  }
  std::vector<int64_t> order;
  std::string left(from);
  for (const char letter : to) {
    const size_t at = left.find(letter);
    left[at] = ' ';
    order.push_back(static_cast<int64_t>(at));
  }
  return order;
}

void check_labelled(std::string_view labels, const std::vector<int64_t>& shape, const std::string& what) {
  check_dimensions(labels);
  if (labels.size() == shape.size()) return;
  throw Error(ErrorCode::invalid_option, what + " has " + std::to_string(shape.size()) + " dimensions, and " +
                                             quote(labels) + " names " + std::to_string(labels.size()));
}

}  // namespace lockstep
