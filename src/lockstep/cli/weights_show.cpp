// The command `weights show`: how the numbers of each tensor are spread.
#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/run_weights.h"
#include "lockstep/cli/verbs.h"

namespace lockstep::cli {
namespace {

constexpr size_t kBins = 40;

// Of the finite numbers.
struct Spread {
  int64_t finite = 0;
  int64_t not_finite = 0;
  int64_t zeros = 0;
  double least = INFINITY;
  double greatest = -INFINITY;
  double mean = 0;
  double deviation = 0;
  std::array<int64_t, kBins> bins{};  ///< of equal width, from the least to the greatest
};

Spread spread_of(const at::Tensor& tensor) {
  const at::Tensor numbers = tensor.to(at::kDouble).contiguous();
  const double* const begin = numbers.data_ptr<double>();
  const double* const end = begin + numbers.numel();
  Spread spread;
  double sum = 0;
  for (const double* at = begin; at != end; ++at) {
    if (!std::isfinite(*at)) {
      ++spread.not_finite;
      continue;
    }
    ++spread.finite;
    spread.zeros += *at == 0 ? 1 : 0;
    spread.least = std::min(spread.least, *at);
    spread.greatest = std::max(spread.greatest, *at);
    sum += *at;
  }
  if (spread.finite == 0) return spread;
  spread.mean = sum / static_cast<double>(spread.finite);
  // Halves, whose difference is finite for any two numbers.
  const double half_width = (spread.greatest / 2 - spread.least / 2) / static_cast<double>(kBins);
  double squares = 0;
  for (const double* at = begin; at != end; ++at) {
    if (!std::isfinite(*at)) continue;
    squares += (*at - spread.mean) * (*at - spread.mean);
    const double place = half_width > 0 ? (*at / 2 - spread.least / 2) / half_width : 0;
    ++spread.bins[std::min(kBins - 1, static_cast<size_t>(place))];
  }
  spread.deviation = std::sqrt(squares / static_cast<double>(spread.finite));
  return spread;
}

Json json_of_tensor(const std::string& name, const at::Tensor& tensor) {
  const Spread spread = spread_of(tensor);
  Json json{{"name", name},
            {"shape", tensor.sizes().vec()},
            {"numbers", tensor.numel()},
            {"zeros", spread.zeros},
            {"not_finite", spread.not_finite}};
  if (spread.finite == 0) return json;
  json.update({{"mean", spread.mean},
               {"deviation", spread.deviation},
               {"least", spread.least},
               {"greatest", spread.greatest},
               {"histogram", spread.bins}});
  return json;
}

}  // namespace

int run_weights_show(const Call& call, Console& console) {
  const std::string& path = call.words.front();
  const auto weights = read_run_weights(path);
  if (!weights)
    throw Error(ErrorCode::not_found, quote(path) + " has no weights yet",
                "wait for its first checkpoint, or ask for one: lockstep stop --checkpoint");
  if (settings_of<JsonOutput>(call).json) {
    Json json{{"weights", weights->name}, {"tensors", Json::array()}};
    for (const auto& [name, tensor] : weights->tensors)
      json["tensors"].push_back(json_of_tensor(name, tensor));
    console.print(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
    return 0;
  }
  std::vector<std::vector<std::string>> rows{
      {"tensor", "shape", "mean", "deviation", "least", "greatest", "zeros", "not finite"}};
  for (const auto& [name, tensor] : weights->tensors) {
    const Spread spread = spread_of(tensor);
    const auto figure = [&](double value) { return spread.finite == 0 ? "-" : figure_cell(value); };
    rows.push_back({name, sizes_cell(tensor.sizes()), figure(spread.mean), figure(spread.deviation),
                    figure(spread.least), figure(spread.greatest), with_commas(spread.zeros),
                    with_commas(spread.not_finite)});
  }
  console.print(weights->name + ":\n" + in_columns_within(console.table_width(), rows, "llrrrrrr"));
  return 0;
}

}  // namespace lockstep::cli
