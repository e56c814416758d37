// A page of SVG with plots: shapes, text, axes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/view/internal/curve.h"
#include "lockstep/view/internal/figures.h"

namespace lockstep::view {

// In pixels.
inline constexpr double kPageWidth = 960;
inline constexpr double kPlotLeft = 76;
inline constexpr double kPlotRight = kPageWidth - 28;

/// Colours as CSS writes them.
struct PageColours {
  std::string paper = "#ffffff";
  std::string ink = "#24292f";
  std::string faint = "#6e7781";
  std::string grid = "#d8dee4";
  std::string band = "#f0f2f5";  ///< behind every second epoch
  std::string train = "#2a6fb0";
  std::string held_out = "#d8701a";
  std::string rate = "#6b8f5e";
};

enum class Anchor { start, middle, end };

class Drawing {
 public:
  /// An empty page, kPageWidth wide.
  explicit Drawing(double height, PageColours colours = {});
  const PageColours& colours() const { return colours_; }
  void raw(std::string_view text) { out_ += text; }
  void rectangle(double x, double y, double width, double height, std::string_view fill);
  void line(double x0, double y0, double x1, double y1, std::string_view colour, double width);
  /// The edge has the paper's colour if none is named.
  void dot(double x, double y, double radius, std::string_view fill, std::string_view stroke = {});
  /// Any text: reserved characters of XML are escaped. Faint if no colour is named.
  void words(double x, double y, Anchor anchor, std::string_view text, std::string_view colour = {},
             int size = 12, bool bold = false);
  /// `style` has more attributes, for example `stroke-opacity="0.3"`.
  void path(const std::vector<std::pair<double, double>>& places, std::string_view colour, double width,
            std::string_view style = {});
  std::string finish() { return std::move(out_) + "</svg>\n"; }

 private:
  void element(std::string_view name, const std::vector<std::pair<const char*, std::string>>& attributes);
  PageColours colours_;
  std::string out_;
};

/// The position of a plot on the page, and the ranges of its axes.
struct Panel {
  std::string id;
  double top;
  double height;
  Axis x;
  Axis y;

  double bottom() const { return top + height; }
  double across(double value) const { return kPlotLeft + x.share(value) * (kPlotRight - kPlotLeft); }
  double down(double value) const { return bottom() - y.share(value) * height; }
  std::vector<std::pair<double, double>> places(const std::vector<Point>& points) const;
};

/// Draws lines at the ticks of the y axis, both axes, the title of the y axis, and the labels of the x axis
/// if requested.
void draw_axes(Drawing& drawing, const Panel& panel, std::string_view title, bool x_labels);

/// What is drawn until "</g>" is clipped at the panel's edge.
void begin_clip(Drawing& drawing, const Panel& panel);

}  // namespace lockstep::view
