// Parts of a report's page.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/view/report.h"

namespace lockstep::view {

/// The page's style sheet, for light and dark.
std::string_view report_style();

/// <section> with a heading; `body` is markup, `title` is not.
std::string section(std::string_view title, const std::string& body, std::string_view note = {});

/// A name out of a file: text that has no say over what stands beside it.
std::string name_text(std::string_view name);

std::string class_section(const Judgement& judgement);
std::string confusion_section(const Judgement& judgement);
std::string mistakes_section(const Judgement& judgement);

}  // namespace lockstep::view
