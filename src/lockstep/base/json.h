// JSON with the order of its keys kept. Include in sources and in headers that truly hold JSON.
#pragma once

#include <nlohmann/json.hpp>

namespace lockstep {

using Json = nlohmann::ordered_json;

}  // namespace lockstep
