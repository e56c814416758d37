#include "lockstep/view/internal/confusion_matrix.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/counted.h"
#include "lockstep/base/text.h"
#include "lockstep/view/internal/markup.h"
#include "lockstep/view/internal/report_parts.h"

namespace lockstep::view {
namespace {

constexpr size_t kMostNumbered = 30;  // number of classes up to which the matrix shows its counts
constexpr size_t kMostPairs = 12;
constexpr double kStrong = 0.55;  // share of a colour from which text on it is white

/// What a cell says when it is pointed at. Cells without a number always say it.
enum class CellWords { always, without_number };

// The square root makes single mistakes among thousands visible.
double shade(int64_t count, int64_t samples, bool right) {
  if (count == 0 || samples == 0) return 0;
  const double share = static_cast<double>(count) / static_cast<double>(samples);
  return right ? 0.08 + 0.87 * share * share : std::min(0.95, 0.1 + 0.85 * std::sqrt(share));
}

struct MatrixCell {
  int64_t count;
  int64_t samples;  // of the row
  size_t truth;
  size_t answer;
};

std::string cell_text(const std::vector<std::string>& classes, const MatrixCell& cell, CellWords words) {
  const auto [count, samples, truth, answer] = cell;
  if (count == 0) return "<td></td>";
  const bool numbered = classes.size() <= kMostNumbered;
  const double colour = shade(count, samples, truth == answer);
  std::string title;
  if (words == CellWords::always || !numbered)
    title = " title=\"" +
            escaped(with_commas(count) + " of " + with_commas(samples) + ": true " + classes[truth] +
                    ", answered " + classes[answer]) +
            "\"";
  return "<td class=\"" + std::string(truth == answer ? "right" : "wrong") +
         (colour > kStrong ? " strong" : "") + "\" style=\"--shade:" + fixed(colour, 2) + "\"" + title + ">" +
         (numbered ? with_commas(count) : "") + "</td>";
}

// The classes on top.
std::string matrix_head(const std::vector<std::string>& classes) {
  std::string text =
      "<thead><tr><td class=\"corner\"><span>true&nbsp;↓</span><span>answer&nbsp;→</span></td>";
  for (const std::string& name : classes)
    text += "<th scope=\"col\" title=\"" + escaped(name) + "\"><div>" + name_text(name) + "</div></th>";
  return text + "</tr></thead>\n";
}

std::string matrix(const std::vector<std::string>& classes, const ConfusionMatrix& counts, CellWords words) {
  const bool short_names =
      std::all_of(classes.begin(), classes.end(), [](const std::string& name) { return name.size() <= 3; });
  std::string text = "<table class=\"matrix" + std::string(classes.size() <= kMostNumbered ? "" : " small") +
                     (short_names ? " plain" : "") + "\">\n" + matrix_head(classes) + "<tbody>\n";
  for (size_t truth = 0; truth < classes.size(); ++truth) {
    int64_t samples = 0;
    for (const int64_t count : counts[truth]) samples += count;
    text += "<tr><th scope=\"row\" title=\"" + escaped(classes[truth]) + "\">" + name_text(classes[truth]) +
            "</th>";
    for (size_t answer = 0; answer < classes.size(); ++answer)
      text += cell_text(classes, {counts[truth][answer], samples, truth, answer}, words);
    text += "</tr>\n";
  }
  return text + "</tbody></table>";
}

std::string named_box(std::string_view of, const std::string& table) {
  return scroll_box("confusion matrix" + std::string(of), table);
}

}  // namespace

std::string confusion_section(const Judgement& judgement, std::string_view of) {
  const bool fits = judgement.classes.size() <= kMostInMatrix;
  const std::string note = fits ? "On " + judgement.samples + ". A row has the " + judgement.noun +
                                      " of one class by the answer they got: blue are right, orange are "
                                      "wrong, stronger where they are more of the row."
                                : with_commas(static_cast<int64_t>(judgement.classes.size())) +
                                      " classes are too many for a table of all pairs.";
  const std::string table =
      fits ? named_box(of, matrix(judgement.classes, judgement.confusion, CellWords::always)) : "";
  return section("Confusion matrix",
                 "<div class=\"confusion\">\n" + table + confusion_pairs(judgement) + "</div>\n", note);
}

std::string confusion_table(const std::vector<std::string>& classes, const ConfusionMatrix& counts,
                            std::string_view of) {
  return named_box(of, matrix(classes, counts, CellWords::without_number));
}

int least_width(const std::vector<std::string>& classes, const ConfusionMatrix& counts) {
  size_t letters = 0;
  int64_t most = 0;
  for (const std::string& name : classes) letters = std::max(letters, name.size());
  for (const std::vector<int64_t>& row : counts) most = std::max(most, *std::ranges::max_element(row));
  const bool numbered = classes.size() <= kMostNumbered;
  const auto digits = static_cast<int>(with_commas(most).size());
  const int cell = numbered ? std::max(25, 7 * digits + 4) : 10;
  return cell * static_cast<int>(classes.size()) +
         std::max(60, 7 * static_cast<int>(std::min<size_t>(letters, 15)) + 16);
}

std::string confusion_pairs(const Judgement& judgement) {
  const std::vector<Confusion> all = confusions(judgement.confusion);
  if (all.empty()) return "";
  std::string text =
      "<div class=\"pairs\"><h3>Most frequent confusions</h3>\n<table><thead><tr><th scope=\"col\">true</th>"
      "<th scope=\"col\">answer</th><th scope=\"col\" class=\"number\">" +
      escaped(judgement.noun) + "</th></tr></thead><tbody>\n";
  for (size_t i = 0; i < std::min(all.size(), kMostPairs); ++i) {
    text += "<tr><td>" + name_text(judgement.classes[all[i].truth]) + "</td><td>" +
            name_text(judgement.classes[all[i].answer]) + "</td><td class=\"number\">" +
            with_commas(all[i].count) + "</td></tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

Judgement judgement_of(const record::KeptConfusion& kept) {
  int64_t samples = 0, right = 0;
  for (size_t i = 0; i < kept.counts.size(); ++i) {
    right += kept.counts[i][i];
    for (const int64_t count : kept.counts[i]) samples += count;
  }
  Judgement judgement;
  judgement.samples = counted(samples, "label") + " of the best validation";
  judgement.noun = "labels";
  judgement.accuracy = static_cast<double>(right) / static_cast<double>(std::max<int64_t>(1, samples));
  judgement.classes = kept.classes;
  judgement.confusion = kept.counts;
  return judgement;
}

}  // namespace lockstep::view
