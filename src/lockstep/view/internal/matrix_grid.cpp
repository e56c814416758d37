#include "lockstep/view/internal/matrix_grid.h"

#include <algorithm>
#include <span>

#include "lockstep/base/counted.h"
#include "lockstep/base/text.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/view/internal/confusion_matrix.h"
#include "lockstep/view/internal/markup.h"
#include "lockstep/view/internal/report_parts.h"
#include "lockstep/view/internal/trial_words.h"

namespace lockstep::view {
namespace {

constexpr size_t kOpen = 6;  // matrices that are not folded, or as many as there are chosen trials

struct TrialMatrix {
  const sweep::Row* row;
  const std::vector<std::string>& classes;
  const ConfusionMatrix& counts;
  std::string judged_with{};  ///< weights and samples; empty: what the run kept of its best validation
};

// "weights of the best validation, on 1,000 held-out images of digits"
std::string judged_with(const Report& report) {
  const bool is_best = report.weights == record::RunPaths{report.run}.best_weights().string();
  return std::string("weights ") + (is_best ? "of the best validation" : "after the last step") + ", on " +
         report.judgement.samples;
}

std::vector<TrialMatrix> matrices_of_chosen(const SweepPage& page) {
  std::vector<TrialMatrix> found;
  for (const ChosenTrial& one : page.chosen) {
    const sweep::Row* row = find_row(page.table, one.trial);
    const Judgement& judgement = one.report.judgement;
    if (row == nullptr) continue;
    if (one.report.judged && judgement.classes.size() <= kMostInMatrix) {
      found.push_back({row, judgement.classes, judgement.confusion, judged_with(one.report)});
    } else if (!one.report.judged && one.report.kept) {
      found.push_back({row, one.report.kept->classes, one.report.kept->counts});
    }
  }
  return found;
}

std::string card(const SweepPage& page, const TrialMatrix& one) {
  std::string words = parameters_text(page.table, *one.row);
  if (!one.judged_with.empty()) words += "; " + one.judged_with;
  return "<div><h3>" + escaped(trial_title(page.table, *one.row)) + "</h3>\n<p class=\"sub\">" +
         name_text(words) + "</p>\n" +
         confusion_table(one.classes, one.counts, " of trial " + std::to_string(one.row->trial)) + "</div>\n";
}

std::string grid(const SweepPage& page, std::span<const TrialMatrix> matrices) {
  int widest = 0;
  std::string cards;
  for (const TrialMatrix& one : matrices) {
    widest = std::max(widest, least_width(one.classes, one.counts));
    cards += card(page, one);
  }
  return "<div class=\"matrices\" style=\"--least:" + std::to_string(widest) + "px\">\n" + cards + "</div>\n";
}

}  // namespace

std::string matrices_section(const SweepPage& page) {
  std::vector<TrialMatrix> matrices = matrices_of_chosen(page);
  const size_t open = std::max(kOpen, matrices.size());
  for (const TrialConfusion& one : page.confusions) {
    if (const sweep::Row* row = find_row(page.table, one.trial))
      matrices.push_back({row, one.kept.classes, one.kept.counts});
  }
  if (matrices.empty() && page.confusions_left_out == 0) return "";
  std::string note =
      "A row is a true class, a column the answer. Blue cells, on the diagonal, are right, orange ones "
      "wrong; stronger "
      "where they are more of the row. Of the best validation, unless a trial says otherwise.";
  if (page.confusions_left_out > 0)
    note += " " + with_commas(page.confusions_left_out) +
            " more would make the page too large: name their trials with --trials.";
  const std::span<const TrialMatrix> all = matrices;
  std::string text = grid(page, all.first(std::min(open, all.size())));
  if (all.size() > open)
    text +=
        "<details><summary>Open all: " + counted(std::ssize(all) - static_cast<int64_t>(open), "more trial") +
        "</summary>\n" + grid(page, all.subspan(open)) + "</details>\n";
  return "<div id=\"matrices\">\n" + section("Confusion matrices", text, note) + "</div>\n";
}

std::string_view matrices_style() {
  return R"(.matrices{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,var(--least)),1fr));gap:24px}
.matrices>div{min-width:0;display:flex;flex-direction:column}
.matrices .scroll{margin-top:auto}
.matrices h3{color:var(--ink);margin:0}
.matrices .sub{font-size:13px;margin:0 0 8px}
.matrices+details{margin-top:24px}
details>.matrices{margin-top:14px}
.matrices .matrix:not(.small) td,.matrices .matrix:not(.small) th{min-width:24px;height:24px;padding:0 2px;font-size:11px}
.matrices .matrix:not(.small) tbody th{padding-right:7px;max-width:112px}
.matrices .matrix td.corner{padding:0 7px 4px 0}
)";
}

}  // namespace lockstep::view
