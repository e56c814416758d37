#include "lockstep/view/internal/page_head.h"

#include "lockstep/view/internal/markup.h"
#include "lockstep/view/internal/report_parts.h"

namespace lockstep::view {
namespace {

// Without scripts and addresses to load from, even a name that was taken as markup could do nothing.
constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
)";

}  // namespace

std::string page_head(std::string_view title, std::string_view style) {
  return kHead + ("<title>" + escaped(title) + "</title>\n<style>\n") + std::string(report_style()) +
         std::string(style) + "</style>\n</head>\n";
}

const PageColours& page_colours() {
  static const PageColours colours{.paper = "var(--paper)",
                                   .ink = "var(--ink)",
                                   .faint = "var(--faint)",
                                   .grid = "var(--line)",
                                   .band = "var(--band)",
                                   .train = "var(--train)",
                                   .held_out = "var(--held)",
                                   .rate = "var(--rate)"};
  return colours;
}

}  // namespace lockstep::view
