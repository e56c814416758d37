// JSON with the order of its keys kept. Include in sources and in headers that truly hold JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace lockstep {

using Json = nlohmann::ordered_json;

/// Why a text is refused: what() goes on from "... is damaged: ".
class JsonError : public Json::exception {
 public:
  explicit JsonError(const std::string& reason, size_t place = 0)
      : Json::exception(0, reason.c_str()), byte(place) {}
  size_t byte;  ///< where it stops being JSON, counted from 1; 0: it is JSON that goes beyond a bound
};

/// What becomes of a key that stands twice in one object.
enum class KeyTwice { last_counts, refused };

/// Parses text that nobody vouches for. Depth, keys of an object and values are bounded, so that copying,
/// writing and searching what comes out ends soon and within the stack. Throws JsonError.
Json parse_json(std::string_view text, KeyTwice twice = KeyTwice::last_counts);

}  // namespace lockstep
