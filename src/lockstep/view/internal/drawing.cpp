#include "lockstep/view/internal/drawing.h"

#include <array>
#include <cmath>

#include "lockstep/base/text.h"
#include "lockstep/view/internal/markup.h"

namespace lockstep::view {
namespace {

std::string pixels(double value) { return fixed(value, 1); }

}  // namespace

Drawing::Drawing(double height, PageColours colours) : colours_(std::move(colours)) {
  const std::string size = pixels(kPageWidth) + " " + pixels(height);
  out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\" width=\"" +
         pixels(kPageWidth) + "\" height=\"" + pixels(height) +
         "\" font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"12\">\n";
  rectangle(0, 0, kPageWidth, height, colours_.paper);
}

void Drawing::rectangle(double x, double y, double width, double height, std::string_view fill) {
  element("rect", {{"x", pixels(x)},
                   {"y", pixels(y)},
                   {"width", pixels(width)},
                   {"height", pixels(height)},
                   {"fill", std::string(fill)}});
}

void Drawing::line(double x0, double y0, double x1, double y1, std::string_view colour, double width) {
  element("line", {{"x1", pixels(x0)},
                   {"y1", pixels(y0)},
                   {"x2", pixels(x1)},
                   {"y2", pixels(y1)},
                   {"stroke", std::string(colour)},
                   {"stroke-width", pixels(width)}});
}

void Drawing::dot(double x, double y, double radius, std::string_view fill, std::string_view stroke) {
  element("circle", {{"cx", pixels(x)},
                     {"cy", pixels(y)},
                     {"r", pixels(radius)},
                     {"fill", std::string(fill)},
                     {"stroke", stroke.empty() ? colours_.paper : std::string(stroke)},
                     {"stroke-width", "1.5"}});
}

void Drawing::words(double x, double y, Anchor anchor, std::string_view text, std::string_view colour,
                    int size, bool bold) {
  static constexpr std::array<const char*, 3> kAnchors{"start", "middle", "end"};
  out_ += "<text x=\"" + pixels(x) + "\" y=\"" + pixels(y) + "\" text-anchor=\"" +
          kAnchors[static_cast<size_t>(anchor)] + "\" fill=\"" +
          (colour.empty() ? colours_.faint : std::string(colour)) + "\" font-size=\"" + std::to_string(size) +
          "\"" + (bold ? " font-weight=\"600\"" : "") + ">" + escaped(text) + "</text>\n";
}

void Drawing::path(const std::vector<std::pair<double, double>>& places, std::string_view colour,
                   double width, std::string_view style) {
  if (places.size() < 2) return;
  out_ += "<path fill=\"none\" stroke-linejoin=\"round\" stroke=\"" + std::string(colour) +
          "\" stroke-width=\"" + pixels(width) + "\" " + std::string(style) + " d=\"";
  for (size_t i = 0; i < places.size(); ++i)
    out_ += (i == 0 ? "M" : " ") + pixels(places[i].first) + "," + pixels(places[i].second);
  out_ += "\"/>\n";
}

void Drawing::element(std::string_view name,
                      const std::vector<std::pair<const char*, std::string>>& attributes) {
  out_ += "<" + std::string(name);
  for (const auto& [key, value] : attributes) out_ += std::string(" ") + key + "=\"" + value + "\"";
  out_ += "/>\n";
}

std::vector<std::pair<double, double>> Panel::places(const std::vector<Point>& points) const {
  std::vector<std::pair<double, double>> result;
  result.reserve(points.size());
  for (const Point& point : points) result.emplace_back(across(point.step), down(point.value));
  return result;
}

void draw_axes(Drawing& drawing, const Panel& panel, std::string_view title, bool x_labels) {
  for (const double tick : panel.y.ticks) {
    drawing.line(kPlotLeft, panel.down(tick), kPlotRight, panel.down(tick), drawing.colours().grid, 0.8);
    drawing.words(kPlotLeft - 9, panel.down(tick) + 4, Anchor::end, panel.y.label(tick));
  }
  drawing.line(kPlotLeft, panel.top, kPlotLeft, panel.bottom(), drawing.colours().faint, 1);
  drawing.line(kPlotLeft, panel.bottom(), kPlotRight, panel.bottom(), drawing.colours().faint, 1);
  for (const double tick : panel.x.ticks) {
    drawing.line(panel.across(tick), panel.bottom(), panel.across(tick), panel.bottom() + 4,
                 drawing.colours().faint, 1);
    const bool whole = tick == std::round(tick);
    if (x_labels)
      drawing.words(panel.across(tick), panel.bottom() + 18, Anchor::middle,
                    whole ? with_commas(std::llround(tick)) : panel.x.label(tick));
  }
  const double middle = panel.top + panel.height / 2;
  drawing.raw("<g transform=\"rotate(-90 20 " + pixels(middle) + ")\">");
  drawing.words(20, middle + 4, Anchor::middle, title, drawing.colours().ink, 13, true);
  drawing.raw("</g>\n");
}

void begin_clip(Drawing& drawing, const Panel& panel) {
  drawing.raw("<clipPath id=\"" + panel.id + "\">");
  drawing.rectangle(kPlotLeft, panel.top - 2, kPlotRight - kPlotLeft + 2, panel.height + 4, "none");
  drawing.raw("</clipPath>\n<g clip-path=\"url(#" + panel.id + ")\">\n");
}

}  // namespace lockstep::view
