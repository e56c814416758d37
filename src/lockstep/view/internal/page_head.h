// What all pages begin with.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/view/internal/drawing.h"

namespace lockstep::view {

/// From the document's type to the end of its head. The page can load nothing. `style`: CSS that is added to
/// that of all reports.
std::string page_head(std::string_view title, std::string_view style = {});

/// Colours as variables that report_style() sets for light and dark.
const PageColours& page_colours();

}  // namespace lockstep::view
