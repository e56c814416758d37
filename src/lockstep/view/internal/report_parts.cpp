#include "lockstep/view/internal/report_parts.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/base64.h"
#include "lockstep/base/text.h"
#include "lockstep/view/internal/markup.h"

namespace lockstep::view {
namespace {

std::string percent(double share) {
  return std::isnan(share) ? "–" : fixed(100 * share, 1) + "<small>&nbsp;%</small>";
}

// A number, and behind it a bar of that length.
std::string bar_cell(double share) {
  const std::string width = std::isnan(share) ? "0" : fixed(std::clamp(share, 0.0, 1.0), 4);
  return "<td class=\"bar\"><i style=\"--share:" + width + "\"></i><span>" + percent(share) + "</span></td>";
}

std::string class_row(const ClassFigures& row, const std::string& name, std::string_view kind) {
  return "<tr" + std::string(kind) + "><th scope=\"row\">" + name + "</th><td>" + with_commas(row.samples) +
         "</td><td>" + with_commas(row.right) + "</td>" + bar_cell(row.precision) + bar_cell(row.recall) +
         bar_cell(row.f1) + "</tr>\n";
}

std::string score_line(std::string_view kind, const std::string& name, double score) {
  return "<div class=\"score " + std::string(kind) + "\"><span>" + name_text(name) + "</span><b>" +
         percent(score) + "</b><i style=\"width:" + fixed(100 * std::clamp(score, 0.0, 1.0), 1) +
         "%\"></i></div>";
}

std::string mistake_card(const ReportMistake& mistake) {
  return "<figure><img" + std::string(mistake.tiny ? " class=\"tiny\"" : "") + " alt=\"" +
         escaped(mistake.source) + "\" src=\"data:" + escaped(mistake.image_type) + ";base64," +
         as_base64(mistake.image) + "\">\n<figcaption>" + score_line("wrong", mistake.answer, mistake.score) +
         score_line("right", mistake.truth, mistake.truth_score) + "<div class=\"file\" title=\"" +
         escaped(mistake.source) + "\">" + name_text(mistake.source) + "</div></figcaption></figure>\n";
}

std::string mistake_table(const std::vector<ReportMistake>& mistakes) {
  std::string text =
      "<table><thead><tr><th>answer</th><th "
      "class=\"number\">score</th><th>true</th><th "
      "class=\"number\">score</th><th>file</th></tr></thead><tbody>\n";
  for (const ReportMistake& one : mistakes) {
    text += "<tr><td>" + name_text(one.answer) + "</td><td class=\"number\">" + percent(one.score) +
            "</td><td>" + name_text(one.truth) + "</td><td class=\"number\">" + percent(one.truth_score) +
            "</td><td>" + name_text(one.source) + "</td></tr>\n";
  }
  return scroll_box("mistakes", text + "</tbody></table>");
}

}  // namespace

std::string_view report_style() {
  return R"(:root{color-scheme:light dark;--paper:#fff;--card:#fff;--ink:#1f2328;--faint:#636c76;
  --line:#d8dee4;--band:#f3f5f7;--blue:42,111,176;--orange:216,112,26;--train:#2a6fb0;--held:#d8701a;
  --rate:#6b8f5e;--page:#f6f8fa}
@media(prefers-color-scheme:dark){:root{--paper:#161b22;--card:#161b22;--ink:#e6edf3;--faint:#9198a1;
  --line:#30363d;--band:#1c232c;--blue:68,147,248;--orange:224,123,38;--train:#58a6ff;--held:#f0883e;
  --rate:#8fbf7f;--page:#0d1117}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
  font:15px/1.5 system-ui,"Segoe UI",Helvetica,Arial,sans-serif}
main{max-width:1120px;margin:0 auto;padding:32px 24px 64px}
h1{font-size:28px;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:18px;margin:0 0 4px}
h3{font-size:14px;margin:0 0 8px;color:var(--faint);font-weight:600}
.sub,.note{color:var(--faint);margin:4px 0 0;overflow-wrap:anywhere}
.note{margin:0 0 14px;font-size:14px}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:20px 22px;overflow-wrap:anywhere;
  margin-top:20px}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin-top:22px}
.figures div{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 16px;
  min-width:0;overflow-wrap:anywhere}
.figures dt,.figures span{color:var(--faint);font-size:13px;display:block}
.figures b{font-size:24px;font-weight:600;line-height:1.3;font-variant-numeric:tabular-nums;
  white-space:nowrap}
.figures small{font-size:14px;font-weight:400;color:var(--faint)}
small{color:var(--faint)}
.warnings{border-left:4px solid rgb(var(--orange))}
.warnings ul{margin:6px 0 0;padding-left:20px;overflow-wrap:anywhere}
svg{display:block;width:100%;height:auto}
.scroll{overflow-x:auto;overflow-wrap:break-word}
.scroll{background:linear-gradient(90deg,var(--card) 50%,transparent) 0 0/32px 100% local,linear-gradient(270deg,
  var(--card) 50%,transparent) 100% 0/32px 100% local,linear-gradient(90deg,var(--line),transparent) 0 0/14px 100%,
  linear-gradient(270deg,var(--line),transparent) 100% 0/14px 100%;background-repeat:no-repeat}
.wide>svg{min-width:600px}
.wide>svg>rect:first-child{fill:none}
@media(max-width:760px){main{padding:24px 12px 48px}section{padding:16px 14px}.wide text{font-size:14px}
  .wide text[font-size="18"]{font-size:18px}}
@media(max-width:654px){.wide:before{content:"wider than the window: scroll to the side \2192";position:sticky;left:0;
  display:block;width:fit-content;color:var(--faint);font-size:13px}}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px}
th{font-weight:600;text-align:left}
td,th{padding:4px 10px;border-bottom:1px solid var(--line);vertical-align:top}
thead th{color:var(--faint);font-size:13px}
td.number,th.number,.classes td,.classes thead th+th{text-align:right}
.classes{width:100%}
.classes th[scope=row]{max-width:320px;overflow:hidden;text-overflow:ellipsis}
.classes tr.mean>*{border-top:2px solid var(--line);font-weight:600}
td.bar{position:relative;min-width:110px}
td.bar i{position:absolute;left:8px;top:5px;bottom:5px;width:calc((100% - 16px)*var(--share));
  background:rgba(var(--blue),.2);border-radius:3px}
td.bar span{position:relative}
.confusion{display:flex;flex-wrap:wrap;gap:28px;align-items:flex-start}
.confusion .scroll{max-width:100%}
.matrix td,.matrix th{border:1px solid var(--page);padding:0 4px;text-align:center;min-width:44px;height:34px;
  vertical-align:middle}
.matrix td{background:var(--band)}
.matrix thead th{vertical-align:bottom;height:auto;border-color:transparent;padding:0 2px 6px}
.matrix thead th div{writing-mode:vertical-rl;transform:rotate(180deg);max-height:170px;overflow:hidden;
  text-overflow:ellipsis;white-space:nowrap;margin:0 auto}
.matrix.plain thead th div{writing-mode:horizontal-tb;transform:none}
.matrix tbody th{text-align:right;border-color:transparent;padding-right:10px;max-width:200px;overflow:hidden;
  text-overflow:ellipsis;white-space:nowrap;color:var(--faint);font-size:13px}
.matrix td.corner{background:none;border-color:transparent;color:var(--faint);font-size:12px;
  vertical-align:bottom;text-align:right;padding:0 10px 6px 0;line-height:1.3}
.corner span{display:block}
.matrix td.right{background:linear-gradient(rgba(var(--blue),var(--shade)),rgba(var(--blue),
  var(--shade))) var(--band)}
.matrix td.wrong{background:linear-gradient(rgba(var(--orange),var(--shade)),rgba(var(--orange),
  var(--shade))) var(--band)}
.matrix td.strong{color:#fff}
.matrix.small td,.matrix.small th{min-width:9px;height:9px;padding:0;font-size:9px;line-height:9px;
  border-width:0 1px 1px 0}
.matrix.small tbody th{padding-right:6px;max-width:150px}
.gallery{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:16px}
figure{margin:0;border:1px solid var(--line);border-radius:8px;overflow:hidden;background:var(--band)}
figure img{display:block;width:100%;aspect-ratio:1;object-fit:contain;background:var(--page)}
img.tiny{image-rendering:pixelated}
figcaption{padding:8px 10px 10px;font-size:13px}
.score{position:relative;display:flex;justify-content:space-between;gap:8px;padding-bottom:5px;
  margin-bottom:3px}
.score span{overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.score b{font-weight:600;white-space:nowrap;font-variant-numeric:tabular-nums}
.score i{position:absolute;left:0;bottom:0;height:3px;min-width:2px;border-radius:2px}
.score.wrong i{background:rgb(var(--orange))}
.score.right i{background:rgb(var(--blue))}
.score.wrong span:before{content:"✗ ";color:rgb(var(--orange))}
.score.right span:before{content:"✓ ";color:rgb(var(--blue))}
.file{color:var(--faint);font-size:12px;direction:rtl;text-align:left;overflow:hidden;text-overflow:ellipsis;
  white-space:nowrap}
.plan{width:100%}
.plan th{white-space:nowrap}
.plan td{overflow-wrap:anywhere}
.plan td+td{color:var(--faint)}
@media(max-width:600px){.plan,.plan *{display:block}
  .plan tr{border-bottom:1px solid var(--line);padding:6px 0}.plan th,.plan td{border:0;padding:0;white-space:normal}}
code{font:13px/1.5 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;overflow-wrap:anywhere}
@media print{body{background:none}main{padding:0}section{padding:10px}section,.figures div{break-inside:avoid}
  .scroll{overflow:visible;background:none}.wide:before{content:none}.wide>svg{min-width:0}
  .matrix td,.bar i,.score i{print-color-adjust:exact}.matrix:not(.small) td,.matrix:not(.small) th{min-width:0;
  height:22px;padding:0 2px;font-size:10px}.matrix tbody th{max-width:110px}}
)";
}

std::string section(std::string_view title, const std::string& body, std::string_view note) {
  return "<section>\n<h2>" + escaped(title) + "</h2>\n" +
         (note.empty() ? "" : "<p class=\"note\">" + escaped(note) + "</p>\n") + body + "</section>\n";
}

std::string scroll_box(std::string_view name, const std::string& content, std::string_view kind) {
  return "<div class=\"scroll" + std::string(kind) + "\" tabindex=\"0\" role=\"region\" aria-label=\"" +
         escaped(name) + "\">" + content + "</div>\n";
}

std::string drawing_box(std::string_view name, const std::string& drawing) {
  return scroll_box(name, drawing, " wide");
}

std::string name_text(std::string_view name) { return "<bdi>" + escaped(name) + "</bdi>"; }

std::string class_section(const Judgement& judgement) {
  const std::vector<ClassFigures> rows = class_figures(judgement.confusion, judgement.classes);
  std::string text =
      "<table class=\"classes\">\n<thead><tr><th>class</th><th>" + escaped(judgement.noun) +
      "</th><th>right</th><th>precision</th><th>recall</th><th>F1</th></tr></thead>\n<tbody>\n";
  for (const ClassFigures& row : rows) text += class_row(row, name_text(row.name), "");
  text += class_row(mean_figures(rows), "mean of the classes", " class=\"mean\"");
  return section(
      "Classes", scroll_box("classes", text + "</tbody></table>"),
      "On " + judgement.samples +
          ". Precision: how many of the answers with this class are right; recall: how many of its " +
          judgement.noun + " are found.");
}

std::string mistakes_section(const Judgement& judgement) {
  const std::vector<ReportMistake>& mistakes = judgement.mistakes;
  if (judgement.mistake_count == 0)
    return section("Worst mistakes", "", "None: every one of " + judgement.samples + " is answered rightly.");
  std::string note = with_commas(judgement.mistake_count) + " of " + judgement.samples + " " +
                     (judgement.mistake_count == 1 ? "is" : "are") + " answered wrongly.";
  const auto shown = static_cast<int64_t>(mistakes.size());
  const std::string which = shown < judgement.mistake_count
                                ? "The " + with_commas(shown) + " with the surest answers"
                                : "The surest first";
  if (shown > 0) note += " " + which + "; ✗ is the answer with its score, ✓ the true class with its.";
  const bool images = std::all_of(mistakes.begin(), mistakes.end(),
                                  [](const ReportMistake& one) { return !one.image.empty(); });
  std::string text;
  if (images && !mistakes.empty()) {
    text = "<div class=\"gallery\">\n";
    for (const ReportMistake& one : mistakes) text += mistake_card(one);
    text += "</div>\n";
  } else if (!mistakes.empty()) {
    text = mistake_table(mistakes);
  }
  if (!judgement.all_mistakes.empty() && static_cast<int64_t>(mistakes.size()) < judgement.mistake_count)
    text +=
        "<p class=\"sub\">All of them as a table: <code>" + escaped(judgement.all_mistakes) + "</code></p>\n";
  return section("Worst mistakes", text, note);
}

}  // namespace lockstep::view
