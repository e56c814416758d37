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
  bool best = false;    ///< no other point is both faster and cheaper
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

/// Both axes are logarithmic. Curves with more than one point are lines, and the best points are joined by a
/// wide pale one.
std::string cost_svg(const std::vector<CostCurve>& curves, const CostText& text);

}  // namespace lockstep::view
