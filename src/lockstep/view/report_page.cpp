#include <cmath>

#include "lockstep/base/counted.h"
#include "lockstep/base/text.h"
#include "lockstep/record/log_name.h"
#include "lockstep/view/internal/confusion_matrix.h"
#include "lockstep/view/internal/curves_drawing.h"
#include "lockstep/view/internal/figures.h"
#include "lockstep/view/internal/history.h"
#include "lockstep/view/internal/markup.h"
#include "lockstep/view/internal/page_head.h"
#include "lockstep/view/internal/report_parts.h"
#include "lockstep/view/report.h"

namespace lockstep::view {
namespace {

const record::Event* last_of(const std::vector<record::Event>& events, std::string_view kind) {
  const record::Event* found = nullptr;
  for (const record::Event& event : events) {
    if (event.kind == kind) found = &event;
  }
  return found;
}

std::string page_title(const History& history) {
  if (history.network().empty()) return "run";
  return history.network() + (history.data().empty() ? "" : " on " + history.data());
}

std::string small_percent(double share) { return fixed(100 * share, 2) + "<small>&nbsp;%</small>"; }

// `value` is markup; empty if the number is not known.
std::string figure(std::string_view name, double number, const std::string& value,
                   std::string_view more = {}) {
  if (!std::isfinite(number)) return "";
  return "<div><span>" + escaped(name) + "</span><b>" + value + "</b>" +
         (more.empty() ? "" : "<span>" + escaped(more) + "</span>") + "</div>\n";
}

// How the newest attempt ended, `end` or `failed`; null while it goes on, or if it was killed.
const record::Event* end_of_newest(const std::vector<record::Event>& events) {
  const auto is_of_run = [](const record::Event& event) {
    return event.writer.empty() || record::is_of_rank(event.writer);
  };
  int64_t newest = 0;
  for (const record::Event& event : events)
    newest = is_of_run(event) ? std::max(newest, event.attempt) : newest;
  const record::Event* found = nullptr;
  for (const record::Event& event : events) {
    if (is_of_run(event) && event.attempt == newest && (event.kind == "end" || event.kind == "failed"))
      found = &event;
  }
  return found;
}

std::string how_it_ended(const std::vector<record::Event>& events) {
  const record::Event* end = end_of_newest(events);
  if (end == nullptr) return "has not ended";
  return end->kind == "failed" ? "failed: " + record::text(*end, "error")
                               : "ended: " + record::text(*end, "reason", "finished");
}

std::string head_figures(const Report& report, const History& history) {
  const record::Event none;
  const record::Event* end = end_of_newest(report.events);
  const record::Event& said = end == nullptr || end->kind != "end" ? none : *end;
  const double accuracy = record::number(said, "accuracy"), best = record::number(said, "best_accuracy"),
               test = record::number(said, "test_accuracy"),
               speed = record::number(said, "images_per_second");
  const double seconds = record::number(said, "seconds");
  std::string text;
  if (report.judged)
    text += figure("accuracy", report.judgement.accuracy, small_percent(report.judgement.accuracy),
                   "on " + report.judgement.samples + ", loss " + as_loss(report.judgement.loss));
  if (report.judged && report.judgement.top5_accuracy)
    text += figure("top-5 accuracy", *report.judgement.top5_accuracy,
                   small_percent(*report.judgement.top5_accuracy), "the class is among the five likeliest");
  if (report.judged) {
    const double f1 = mean_figures(class_figures(report.judgement.confusion, report.judgement.classes)).f1;
    text += figure("macro F1", f1, fixed(f1, 4), "mean of all classes");
  }
  if (!report.judged)
    text += figure("held-out accuracy", accuracy, small_percent(accuracy), "after the last step");
  const double best_step = record::number(said, "best_step");
  text += figure("best held-out accuracy", best, small_percent(best),
                 best_step > 0 ? "at step " + with_commas(std::llround(best_step)) : "");
  text += figure("test accuracy", test, small_percent(test));
  text += figure("time", seconds, escaped(as_duration(seconds)),
                 counted(history.status().epoch, "epoch") + ", " + counted(history.status().step, "step"));
  text += figure("speed", speed, as_speed(speed) + "<small>&nbsp;/s</small>", history.status().samples);
  return text.empty() ? "" : "<div class=\"figures\">\n" + text + "</div>\n";
}

std::string head(const Report& report, const History& history) {
  return "<header>\n<h1>" + name_text(page_title(history)) + "</h1>\n<p class=\"sub\">" +
         name_text(report.run) + " · " + escaped(how_it_ended(report.events)) + "</p>\n" +
         head_figures(report, history) + "</header>\n";
}

std::string warnings(const Report& report) {
  std::string items;
  if (!report.judged && !report.not_judged.empty())
    items += "<li>Not judged on images: " + escaped(report.not_judged) + "</li>\n";
  for (const std::string& warning : report.warnings) items += "<li>" + escaped(warning) + "</li>\n";
  for (const record::Event& event : report.events) {
    if (event.kind == "message" && record::text(event, "level") == "warning")
      items += "<li>" + escaped(record::text(event, "text")) + "</li>\n";
  }
  return items.empty()
             ? ""
             : "<section class=\"warnings\">\n<h2>Take note</h2>\n<ul>\n" + items + "</ul>\n</section>\n";
}

std::string plan_section(const Report& report) {
  std::string rows;
  const auto add = [&](const std::string& name, const std::string& value, const std::string& reason) {
    rows += "<tr><th scope=\"row\">" + escaped(name) + "</th><td>" + escaped(value) + "</td><td>" +
            escaped(reason) + "</td></tr>\n";
  };
  if (!report.weights_hash.empty())
    rows += "<tr><th scope=\"row\">weights</th><td><code>" + escaped(report.weights_hash) +
            "</code></td><td>XXH3 of " + escaped(report.weights) + "; equal for equal weights</td></tr>\n";
  if (const record::Event* plan = last_of(report.events, "plan");
      plan != nullptr && plan->values.contains("lines")) {
    for (const Json& line : plan->values["lines"]) {
      if (!line.is_array() || line.size() != 3 || !line[0].is_string() || !line[1].is_string() ||
          !line[2].is_string())
        continue;
      add(line[0].get<std::string>(), line[1].get<std::string>(), line[2].get<std::string>());
    }
  }
  return rows.empty() ? ""
                      : section("Plan",
                                "<div class=\"scroll\"><table class=\"plan\"><tbody>\n" + rows +
                                    "</tbody></table></div>\n",
                                "What the run was asked for or chose, and why.");
}

}  // namespace

std::string report_page(const Report& report) {
  History history;
  for (const record::Event& event : report.events) history.add(event);
  std::string page = page_head(page_title(history)) + "<body>\n<main>\n";
  page += head(report, history) + warnings(report);
  if (history.has_steps())
    page += section("Curves", drawing_box("curves", draw_curves(history, page_colours())));
  if (report.judged)
    page += confusion_section(report.judgement) + mistakes_section(report.judgement) +
            class_section(report.judgement);
  if (!report.judged && report.kept) {
    const Judgement kept = judgement_of(*report.kept);
    page += confusion_section(kept) + class_section(kept);
  }
  return page + plan_section(report) + "</main>\n</body>\n</html>\n";
}

}  // namespace lockstep::view
