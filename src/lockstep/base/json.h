// JSON that keeps the order of its keys. Include it in sources and in headers that hold JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace lockstep {

using Json = nlohmann::ordered_json;

/// Why a text is refused; what() continues "... is damaged: ".
class JsonError : public Json::exception {
 public:
  explicit JsonError(const std::string& reason, size_t place = 0)
      : Json::exception(0, reason.c_str()), byte(place) {}
  size_t byte;  ///< where it stops being JSON, counted from 1; 0: JSON that exceeds a bound
};

/// The treatment of a key that appears twice in one object.
enum class KeyTwice { last_counts, refused };

/// Parses untrusted text. Depth, keys of an object and values are bounded, so that copying, writing and
/// searching the result ends soon and does not overflow the stack. Throws JsonError.
Json parse_json(std::string_view text, KeyTwice twice = KeyTwice::last_counts);

}  // namespace lockstep
