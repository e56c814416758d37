// Parts of the report page.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/view/report.h"

namespace lockstep::view {

/// The page's style sheet, for light and dark.
std::string_view report_style();

/// <section> with a heading; `body` is markup, `title` is not.
std::string section(std::string_view title, const std::string& body, std::string_view note = {});

/// What may be wider than the page, in a box that scrolls, also by the keyboard. kind: a further class, after
/// a blank.
std::string scroll_box(std::string_view name, const std::string& content, std::string_view kind = "");

/// A drawing that scrolls by itself where it would become too small to read.
std::string drawing_box(std::string_view name, const std::string& drawing);

/// A name from a file, isolated so that it cannot change the direction of the text beside it.
std::string name_text(std::string_view name);

std::string class_section(const Judgement& judgement);
std::string mistakes_section(const Judgement& judgement);

}  // namespace lockstep::view
