// The one page of studio.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::studio {

/// The page with its modules named in its head: the browser asks for all of them at once, not for those that
/// one imports when it is there.
std::string index_page(std::string_view page);

}  // namespace lockstep::studio
