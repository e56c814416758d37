#include "lockstep/view/internal/figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "lockstep/base/text.h"

namespace lockstep::view {
namespace {

std::string figures(double value, int count) {
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*g", count, value);
  return buffer.data();
}

}  // namespace

std::string as_loss(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : (value > 0 ? "inf" : "-inf");
  const double size = std::abs(value);
  if (size != 0 && size < 0.001) return figures(value, 3);
  if (size < 10) return fixed(value, 4);
  if (size < 100) return fixed(value, 3);
  return size < 10000 ? fixed(value, 1) : figures(value, 4);
}

std::string as_accuracy(double value) { return std::isfinite(value) ? fixed(value, 4) : "nan"; }

std::string as_rate(double value) { return figures(value, 3); }

std::string as_speed(double value) {
  if (!std::isfinite(value)) return "?";
  return value < 20 ? fixed(value, 1) : with_commas(std::llround(value));
}

std::string Axis::label(double tick) const {
  if (std::abs(tick) >= 1e6) return figures(tick, 5);
  if (std::abs(tick) >= 10000 && digits == 0) return with_commas(std::llround(tick));
  if (digits > 4) return figures(tick, 2);
  return fixed(tick == 0 ? 0.0 : tick, digits);
}

Axis make_axis(double low, double high, int most_ticks, bool round_out) {
  // A range at the limit of double's precision would give infinitely many ticks, or undefined places.
  if (!(high - low > std::max(1e-300, 1e-12 * std::max(std::abs(low), std::abs(high))))) {
    const double margin = std::max(std::abs(low) * 0.05, 1e-6);
    low -= margin;
    high += margin;
  }
  const double rough = (high - low) / std::max(1, most_ticks - 1);
  double power = std::pow(10.0, std::floor(std::log10(rough)));
  double spacing = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) {
      spacing = factor * power;
      break;
    }
  }
  Axis axis{low, high, {}, std::max(0, -static_cast<int>(std::floor(std::log10(spacing) + 1e-9)))};
  if (round_out) {
    axis.low = std::floor(low / spacing + 1e-9) * spacing;
    axis.high = std::ceil(high / spacing - 1e-9) * spacing;
  }
  const auto first = static_cast<int64_t>(std::ceil(axis.low / spacing - 1e-9));
  const auto last = static_cast<int64_t>(std::floor(axis.high / spacing + 1e-9));
  for (int64_t tick = first; tick <= last; ++tick) axis.ticks.push_back(static_cast<double>(tick) * spacing);
  return axis;
}

}  // namespace lockstep::view
