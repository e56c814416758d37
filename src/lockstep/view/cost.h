// What a training costs on several kinds and numbers of machines, against its time.
#pragma once

#include <string>
#include <vector>

namespace lockstep::view {

struct CostPoint {
  double hours = 0;
  double dollars = 0;
  std::string label;    ///< beside the point: the number of workers
  bool marked = false;  ///< what the user asked for
};

/// One kind of machine, in the order of its numbers.
struct CostCurve {
  std::string name;
  std::vector<CostPoint> points;
};

struct CostText {
  std::string title;
  std::string note;  ///< below the title
};

/// Both axes are logarithmic. Curves with more than one point are lines; names are beside their first points.
std::string cost_svg(const std::vector<CostCurve>& curves, const CostText& text);

}  // namespace lockstep::view
