// Confusion matrices on pages.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/record/confusion_file.h"
#include "lockstep/view/report.h"

namespace lockstep::view {

/// A section with the table of all pairs of up to kMostInMatrix classes, and the most frequent confusions.
/// of: whose it is, where a page has several: " of trial 3".
std::string confusion_section(const Judgement& judgement, std::string_view of = {});

/// The table alone, for pages with many: what its cells say in numbers is not also said in words.
std::string confusion_table(const std::vector<std::string>& classes, const ConfusionMatrix& counts,
                            std::string_view of);
/// In pixels, of such a table in a grid (matrices_style).
int least_width(const std::vector<std::string>& classes, const ConfusionMatrix& counts);

/// The most frequent confusions as a table; empty if every answer is right.
std::string confusion_pairs(const Judgement& judgement);

/// The classes and counts that a run kept; without loss and mistakes.
Judgement judgement_of(const record::KeptConfusion& kept);

}  // namespace lockstep::view
