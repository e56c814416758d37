// What a sweep searches: parameters with a range or a list of choices, some of which only count where another
// parameter has certain values.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"

namespace lockstep::sweep {

enum class ParameterKind { real, integer, categorical };

/// One parameter. A real or an integer one lies in [low, high], both included.
struct Parameter {
  std::string name{};
  ParameterKind kind = ParameterKind::real;
  double low = 0;
  double high = 1;
  bool log = false;                    ///< the logarithm is what is uniform
  std::vector<std::string> choices{};  ///< of a categorical parameter
  std::string when{};                  ///< only counts if this earlier, categorical parameter ...
  std::vector<std::string> values{};   ///< ... has one of these values

  bool is_number() const { return kind != ParameterKind::categorical; }
  /// There is nothing to choose.
  bool is_single() const { return is_number() ? low == high : choices.size() == 1; }
};

/// A value for each parameter of a space, in its order: the number, the index of the choice, or kAbsent where
/// the parameter does not count.
using Point = std::vector<double>;
inline constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

/// Names and values as a command line has them.
using Assignment = std::vector<std::pair<std::string, std::string>>;

/// An ordered list of parameters. A value.
class Space {
 public:
  /// Reads what stands on a command line: "0.001..0.1:log", "1..5", "digits_cnn,lenet", "a,b:when=other=x|y".
  /// Bounds without a point are whole numbers. Throws invalid_option, naming the parameter.
  void add(std::string_view name, std::string_view text);
  /// Throws invalid_option for what no search can use: two of one name, a range without content, a condition
  /// on a parameter that does not come earlier.
  void add(Parameter parameter);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  size_t size() const { return parameters_.size(); }

  /// Whether parameter i counts, given the values of the earlier ones.
  bool counts(size_t i, const Point& point) const;

  /// The values that count, as text. The text of a number reads back as the same number.
  Assignment assignment(const Point& point) const;
  /// The same as words, NAME=VALUE.
  std::vector<std::string> words_of(const Point& point) const;

  /// The values by their names. A value of a range is a number. One of a list is a number if JSON writes each
  /// number of the list as it stands there and whole ones are at most 2^53; else it is a text, as 007 and
  /// 1e-3.
  Json json_of(const Assignment& assignment) const;

  /// The point whose words these are. Nothing if they are of another space.
  std::optional<Point> point_of(const std::vector<std::string>& words) const;

  /// {"learning-rate": "0.001..0.1:log", ...}
  Json to_json() const;
  /// The values of the object are texts as for add(), numbers, lists of choices, or objects {"range": [a, b],
  /// "log": true, "choices": [...], "when": {"other": ["x"]}}. Throws invalid_option.
  static Space from_json(const Json& json);

 private:
  std::vector<Parameter> parameters_;
};

/// The parameter as add() reads it.
std::string text_of(const Parameter& parameter);

/// A value of the parameter as text.
std::string text_of(const Parameter& parameter, double value);

}  // namespace lockstep::sweep
