// The one page of studio.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::studio {

/// The page with its modules named in its head: the browser asks for all of them at once, not for those that
/// one imports when it is there.
std::string index_page(std::string_view page);

/// "/1b2f..." in front of the path of an asset that the page names. A browser may keep what it got under it,
/// because other bytes have another prefix.
const std::string& kept_prefix();

}  // namespace lockstep::studio
