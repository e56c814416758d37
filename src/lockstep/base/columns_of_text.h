// Texts that fit into the columns of a terminal or a drawing; width_of (text.h) counts them.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// What of a text fits into `width` columns, from its beginning.
std::string_view cut(std::string_view text, int width);

/// The same, with "…" in the last column where something is left out.
std::string shortened(std::string_view text, int width);

}  // namespace lockstep
