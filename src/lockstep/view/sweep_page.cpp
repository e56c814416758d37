#include "lockstep/view/sweep_page.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/view/internal/confusion_matrix.h"
#include "lockstep/view/internal/curves_drawing.h"
#include "lockstep/view/internal/markup.h"
#include "lockstep/view/internal/matrix_grid.h"
#include "lockstep/view/internal/page_head.h"
#include "lockstep/view/internal/report_parts.h"
#include "lockstep/view/internal/sweep_drawings.h"
#include "lockstep/view/internal/trial_words.h"

namespace lockstep::view {
namespace {

using sweep::Row;
using sweep::TrialState;

constexpr const char* kStyle = R"(.trials{width:100%}
.trials td,.trials th{white-space:nowrap}
.trials td.text{white-space:normal;min-width:160px}
.trials tr.best>*{background:rgba(var(--blue),.12)}
svg.small{width:96px;height:24px}
svg.small path{fill:none;stroke:var(--train);stroke-width:1.5;stroke-linecap:round}
.importance{width:100%;max-width:640px}
.importance td.bar{width:60%}
.importance th small{display:block;font-weight:400}
.key{display:inline-block;width:28px;height:8px;margin-right:6px}
.compared th[scope=row]{font-weight:400}
.compared tr.differs>*{font-weight:600}
details{border-top:1px solid var(--line);padding:10px 0}
summary{cursor:pointer;font-weight:600}
details section{border:0;padding:12px 0;margin:0}
@media print{.compared td,.trials td,.trials th,.trials td.text{overflow-wrap:anywhere;white-space:normal;min-width:0;
  padding:4px;font-size:11px}svg.small{width:48px}}
)";

std::string figure(const std::string& name, const std::string& value, const std::string& more = "") {
  return "<div><span>" + escaped(name) + "</span><b>" + escaped(value) + "</b>" +
         (more.empty() ? "" : "<span>" + escaped(more) + "</span>") + "</div>\n";
}

std::string states_text(const sweep::Table& table) {
  std::map<TrialState, int64_t> counts;
  for (const Row& row : table.rows) ++counts[row.state];
  std::vector<std::string> words;
  for (const auto& [state, count] : counts)
    words.push_back(with_commas(count) + " " + enum_names(state)[static_cast<size_t>(state)]);
  return join(words, ", ");
}

// "goes on", "complete", "does not go on"
std::string how_it_stands(const sweep::Table& table) {
  if (table.is_going_on) return "goes on";
  const bool is_over =
      std::ranges::all_of(table.rows, [](const Row& row) { return sweep::is_over(row.state); });
  try {
    const int64_t planned = sweep::Search(table.spec.space, table.spec.search()).count();
    if (is_over && std::ssize(table.rows) >= planned) return "complete";
  } catch (const Error&) {  // options that do not go together; what was trained is shown
  }
  return "does not go on";
}

std::string head(const SweepPage& page) {
  const sweep::Table& table = page.table;
  double seconds = 0;
  int64_t steps = 0;
  for (const Row& row : table.rows) {
    seconds += row.seconds;
    steps += row.step;
  }
  std::string figures;
  if (const Row* best = table.best())
    figures +=
        figure(table.spec.metric(), result_of(*best), "trial " + std::to_string(best->trial) + ", the best");
  figures += figure("trials", with_commas(static_cast<int64_t>(table.rows.size())), states_text(table));
  figures += figure("time of all trials", as_duration(seconds), steps > 0 ? counted(steps, "step") : "");
  const sweep::SweepOptions& options = table.spec.options;
  figures += figure("search", enum_names(options.search)[static_cast<size_t>(options.search)],
                    "seed " + std::to_string(options.seed) +
                        (options.stop_rule == sweep::StopRule::none
                             ? ""
                             : std::string(", stop rule ") +
                                   enum_names(options.stop_rule)[static_cast<size_t>(options.stop_rule)]));
  const std::string mark = not_reproducible_text(table.spec);
  return "<header>\n<h1>" + name_text(page.sweep) + "</h1>\n<p class=\"sub\">sweep · " +
         how_it_stands(table) + " · " + (table.spec.maximizes() ? "the highest " : "the lowest ") +
         escaped(table.spec.metric()) + " · <code>" + escaped(join(table.spec.command, " ")) +
         "</code></p>\n" + (mark.empty() ? "" : "<p class=\"sub\">" + escaped(mark) + "</p>\n") +
         "<div class=\"figures\">\n" + figures + "</div>\n</header>\n";
}

// "14 of 30 trials have it, too few to trust"; empty if all have it.
std::string how_many_have(int64_t count, int64_t all) {
  if (count == all) return "";
  return with_commas(count) + " of " + counted(all, "trial") + " have it" +
         (count < sweep::kFewTrials ? ", too few to trust" : "");
}

std::string importance_section(const SweepPage& page) {
  if (page.importances.empty()) return "";
  const std::string title = "Importance of parameters";
  const int64_t full = std::ranges::count_if(page.table.rows, [](const Row& row) {
    return row.state == TrialState::ended && row.value && std::isfinite(*row.value);
  });
  const std::string count = with_commas(full);
  if (full < sweep::kFewTrials)
    return section(title, "",
                   "Too few trials: " + count + " trained in full, and figures from fewer than " +
                       std::to_string(sweep::kFewTrials) + " are chance.");
  std::string rows;
  for (const sweep::Importance& one : page.importances)
    rows += "<tr><th scope=\"row\">" + name_text(one.parameter) + "<small>" +
            how_many_have(one.trials, full) +
            "</small></th><td class=\"bar\"><i style=\"--share:" + fixed(one.share, 4) + "\"></i><span>" +
            fixed(100 * one.share, 1) + "<small>&nbsp;%</small></span></td></tr>\n";
  return section(title,
                 "<table class=\"importance\"><thead><tr><th scope=\"col\">parameter</th><th "
                 "scope=\"col\">importance</th></tr></thead><tbody>\n" +
                     rows + "</tbody></table>\n",
                 "How much the values of the best tenth differ from those of all " + count +
                     " trials that were trained in full (PED-ANOVA), as shares of the sum.");
}

class TableRows {
 public:
  explicit TableRows(const SweepPage& page) : page_(page), range_(range_of_curves(page.table, page.curves)) {
    for (const TrialCurve& curve : page.curves) curves_[curve.trial] = &curve;
    for (const Row& row : page.table.rows) {
      has_steps_ = has_steps_ || row.step > 0 || row.total_steps > 0;
      has_notes_ = has_notes_ || !row.error.empty() || !row.note.empty();
    }
  }

  std::string heading() const {
    std::string text;
    const auto column = [&](const std::string& name, bool number) {
      text += std::string("<th scope=\"col\"") + (number ? " class=\"number\"" : "") + ">" + escaped(name) +
              "</th>";
    };
    column("trial", true);
    column("state", false);
    column(page_.table.spec.metric(), true);
    if (!page_.curves.empty()) column(page_.curve_name, false);
    if (has_steps_) column("steps", true);
    column("time", true);
    for (const sweep::Parameter& parameter : page_.table.spec.space.parameters())
      column(parameter.name, parameter.is_number());
    if (has_notes_) column("note", false);
    return "<thead><tr>" + text + "</tr></thead>\n";
  }

  std::string row(const Row& row) const {
    const auto number = [](const std::string& text) { return "<td class=\"number\">" + text + "</td>"; };
    std::string text = "<tr" + std::string(&row == page_.table.best() ? " class=\"best\"" : "") +
                       "><th scope=\"row\" class=\"number\">" + std::to_string(row.trial) + "</th><td>" +
                       state_of(row) + (&row == page_.table.best() ? " ★" : "") + "</td>" +
                       number(result_of(row));
    if (!page_.curves.empty()) {
      const auto curve = curves_.find(row.trial);
      text += "<td>" + (curve == curves_.end() ? "" : draw_small(*curve->second, range_)) + "</td>";
    }
    if (has_steps_)
      text += number(row.total_steps > row.step ? with_commas(row.step) + "/" + with_commas(row.total_steps)
                                                : with_commas(row.step));
    text += number(row.seconds > 0 ? escaped(as_duration(row.seconds)) : "–");
    for (const sweep::Parameter& parameter : page_.table.spec.space.parameters()) {
      const std::string value = value_text(row, parameter);
      text += std::string("<td") + (parameter.is_number() ? " class=\"number\"" : "") + ">" +
              (value.empty() ? "–" : escaped(value)) + "</td>";
    }
    const std::string note =
        row.error.empty() ? row.note : row.error + (row.note.empty() ? "" : "; " + row.note);
    return text + (has_notes_ ? "<td class=\"text\">" + escaped(note) + "</td>" : "") + "</tr>\n";
  }

 private:
  const SweepPage& page_;
  std::map<int64_t, const TrialCurve*> curves_;
  ValueRange range_;
  bool has_steps_ = false, has_notes_ = false;  ///< of any trial
};

std::string table_section(const SweepPage& page) {
  std::vector<const Row*> rows;
  for (const Row& row : page.table.rows) rows.push_back(&row);
  const bool maximize = page.table.spec.maximizes();
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const Row* a, const Row* b) { return rank_of(*a, maximize) < rank_of(*b, maximize); });
  const TableRows table(page);
  std::string text = "<table class=\"trials\">" + table.heading() + "<tbody>\n";
  for (const Row* row : rows) text += table.row(*row);
  return section("Trials", scroll_box("trials", text + "</tbody></table>"), "The best first.");
}

std::string compared_table(const SweepPage& page, const std::vector<const Row*>& rows) {
  std::string text =
      "<table "
      "class=\"compared\"><thead><tr><th scope=\"col\">trial</th>";
  for (size_t i = 0; i < rows.size(); ++i)
    text += "<th scope=\"col\">" + compared_key(i) + std::to_string(rows[i]->trial) + "</th>";
  text += "</tr></thead><tbody>\n";
  // exact: what tells values apart that are shown alike
  const auto line = [&](const std::string& name, const auto& cell, const auto& exact) {
    std::vector<std::string> cells;
    for (const Row* row : rows) cells.push_back(cell(*row));
    const bool differs =
        std::ranges::any_of(rows, [&](const Row* row) { return exact(*row) != exact(*rows[0]); });
    if (std::ranges::all_of(cells, [](const std::string& one) { return one.empty(); })) return;
    text += std::string("<tr") + (differs ? " class=\"differs\"" : "") + "><th scope=\"row\">" +
            name_text(name) + "</th>";
    for (const std::string& one : cells) text += "<td>" + (one.empty() ? "–" : escaped(one)) + "</td>";
    text += "</tr>\n";
  };
  const auto same = [&](const std::string& name, const auto& cell) { line(name, cell, cell); };
  line(page.table.spec.metric(), result_of,
       [](const Row& row) { return row.value ? shortest(*row.value) : ""; });
  same("state", [](const Row& row) { return state_of(row); });
  same("steps", [](const Row& row) { return row.step > 0 ? with_commas(row.step) : ""; });
  same("time", [](const Row& row) { return row.seconds > 0 ? as_duration(row.seconds) : ""; });
  for (const sweep::Parameter& parameter : page.table.spec.space.parameters())
    line(
        parameter.name, [&](const Row& row) { return value_text(row, parameter); },
        [&](const Row& row) { return text_of(row, parameter.name); });
  same("weights", [](const Row& row) { return row.weights_hash; });
  same("note", [](const Row& row) { return row.note; });
  return scroll_box("compared trials", text + "</tbody></table>");
}

std::string compared_section(const SweepPage& page) {
  std::vector<const Row*> rows;
  std::vector<TrialCurve> curves;
  for (const ChosenTrial& one : page.chosen) {
    const Row* row = find_row(page.table, one.trial);
    if (row == nullptr) continue;
    rows.push_back(row);
    const auto curve = std::find_if(page.curves.begin(), page.curves.end(),
                                    [&](const TrialCurve& has) { return has.trial == one.trial; });
    curves.push_back(curve == page.curves.end() ? TrialCurve{.trial = one.trial} : *curve);
  }
  if (rows.empty()) return "";
  return section("Comparison",
                 compared_table(page, rows) +
                     drawing_box("curves of the compared trials",
                                 draw_compared(curves, page.curve_name, range_of_curves(page.table, curves),
                                               page_colours())),
                 rows.size() > 1 ? "What differs is bold." : "");
}

std::string of_trial(int64_t trial) { return " of trial " + std::to_string(trial); }

// Its matrix is among those of all trials.
std::string answers_of(const ChosenTrial& chosen) {
  const Report& report = chosen.report;
  if (report.judged && report.judgement.classes.size() > kMostInMatrix)
    return confusion_section(report.judgement, of_trial(chosen.trial));
  if (report.judged) return confusion_pairs(report.judgement);
  const std::string note = report.not_judged.empty()
                               ? ""
                               : "<p class=\"note\">" +
                                     std::string(report.kept ? "Not judged" : "No confusion matrix") + ": " +
                                     escaped(report.not_judged) + "</p>\n";
  return note + (report.kept ? confusion_pairs(judgement_of(*report.kept)) : "");
}

std::string trial_details(const SweepPage& page, const ChosenTrial& chosen, bool is_open) {
  const Row* row = find_row(page.table, chosen.trial);
  if (row == nullptr) return "";
  History history;
  for (const record::Event& event : chosen.report.events) history.add(event);
  std::string text = std::string("<details") + (is_open ? " open" : "") + "><summary>" +
                     escaped(trial_title(page.table, *row)) + "</summary>\n" + "<p class=\"sub\">" +
                     name_text(parameters_text(page.table, *row)) + "</p>\n" + "<p class=\"sub\"><code>" +
                     escaped(chosen.command) + "</code></p>\n";
  if (!row->note.empty()) text += "<p>" + escaped(row->note) + "</p>\n";
  if (!row->error.empty()) text += "<p>" + escaped(row->error) + "</p>\n";
  if (history.has_steps())
    text += drawing_box("curves" + of_trial(chosen.trial),
                        draw_curves(history, page_colours(), "trial-" + std::to_string(chosen.trial) + "-"));
  return text + answers_of(chosen) + "</details>\n";
}

std::string details_section(const SweepPage& page) {
  std::string text;
  for (const ChosenTrial& one : page.chosen) text += trial_details(page, one, &one == &page.chosen.front());
  return text.empty() ? "" : section("Chosen trials", text);
}

std::string results_section(const SweepPage& page) {
  const std::string drawing = draw_results(page.table, page_colours());
  return drawing.empty()
             ? ""
             : section(
                   "Results over trials", drawing_box("results over trials", drawing),
                   "The line is the best until then. An empty dot is a trial that was not trained in full.");
}

}  // namespace

std::string sweep_page(const SweepPage& page) {
  std::string text =
      page_head(page.sweep, std::string(compared_style()) + std::string(matrices_style()) + kStyle) +
      "<body>\n<main>\n" + head(page);
  text += results_section(page) + compared_section(page);
  if (!page.parallel.lines.empty())
    text += section("Parallel coordinates",
                    drawing_box("parallel coordinates", draw_parallel(page.parallel, page_colours())));
  text += importance_section(page) + table_section(page) + matrices_section(page) + details_section(page);
  return text + "</main>\n</body>\n</html>\n";
}

}  // namespace lockstep::view
