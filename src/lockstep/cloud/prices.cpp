#include "lockstep/cloud/prices.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cloud/internal/embedded.h"

namespace lockstep::cloud {
namespace {

constexpr int64_t kMostBytes = int64_t{16} << 20;
constexpr double kMostDollars = 1e6;
constexpr double kMostCount = 1e6;
constexpr const char* kSpot = "spot_no_local_zones_usd_per_hour";
constexpr const char* kSpotZone = "spot_no_local_zones_zone";

// One row, whose cells are asked for by the names of their columns.
class Row {
 public:
  Row(const std::map<std::string, size_t>& columns, std::vector<std::string> cells, std::string place)
      : columns_(columns), cells_(std::move(cells)), place_(std::move(place)) {}

  std::string text(const char* column) const { return cells_[columns_.at(column)]; }
  double number(const char* column, double most) const {
    const std::string cell = text(column);
    const auto value = parse_number<double>(cell);
    if (!value || !std::isfinite(*value) || *value < 0 || *value > most)
      throw Error(ErrorCode::corrupt_data, place_ + ", column " + column + ": " + quote(cell) +
                                               " must be a number from 0 to " + shortest(most));
    return *value;
  }
  double number_or_none(const char* column, double most) const {
    return text(column).empty() ? 0 : number(column, most);
  }

 private:
  const std::map<std::string, size_t>& columns_;
  std::vector<std::string> cells_;
  std::string place_;
};

constexpr std::array<const char*, 9> kColumns{
    "instance_type", "region",    "on_demand_usd_per_hour", "vcpus", "memory_gib",
    "gpu_name",      "gpu_count", "gpu_memory_gib_each",    kSpot};

std::map<std::string, size_t> columns_of(const std::vector<std::string>& header, const std::string& name) {
  std::map<std::string, size_t> columns;
  for (size_t i = 0; i < header.size(); ++i) {
    if (!columns.emplace(header[i], i).second)
      throw Error(ErrorCode::corrupt_data, name + " names the column " + quote(header[i]) + " twice",
                  "remove one of the two columns");
  }
  for (const char* column : kColumns) {
    if (!columns.contains(column))
      throw Error(ErrorCode::corrupt_data, name + " has no column " + column,
                  "its first line names the columns, as in data/aws-prices.csv");
  }
  return columns;
}

Price price_of(const Row& row, bool has_zone) {
  return {.type = row.text("instance_type"),
          .region = row.text("region"),
          .on_demand = row.number("on_demand_usd_per_hour", kMostDollars),
          .spot = row.number_or_none(kSpot, kMostDollars),
          .spot_zone = has_zone ? row.text(kSpotZone) : "",
          .vcpus = static_cast<int64_t>(row.number("vcpus", kMostCount)),
          .memory_gib = row.number("memory_gib", kMostCount),
          .gpu = row.text("gpu_name"),
          .gpus = static_cast<int64_t>(row.number_or_none("gpu_count", kMostCount)),
          .gpu_memory_gib = row.number_or_none("gpu_memory_gib_each", kMostCount)};
}

std::string without_return(std::string line) {
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

}  // namespace

PriceTable parse_prices(std::string_view text, const std::string& name) {
  const std::vector<std::string> lines = split(text, '\n');
  const auto columns = columns_of(split(without_return(lines.front()), ','), name);
  PriceTable table{.date = "", .source = name, .prices = {}};
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::string line = without_return(lines[i]);
    if (line.empty()) continue;
    std::vector<std::string> cells = split(line, ',');
    const std::string place = name + ", line " + std::to_string(i + 1);
    if (cells.size() < columns.size())
      throw Error(ErrorCode::corrupt_data, place + " has " + std::to_string(cells.size()) + " cells, not " +
                                               std::to_string(columns.size()));
    table.prices.push_back(price_of(Row(columns, std::move(cells), place), columns.contains(kSpotZone)));
  }
  if (table.prices.empty()) throw Error(ErrorCode::corrupt_data, name + " has no prices");
  return table;
}

PriceTable read_prices(const std::filesystem::path& file) {
  PriceTable table = parse_prices(read_file(file, kMostBytes), quote(file.string()));
  table.date = "the file " + file.string();
  table.source = file.string();
  return table;
}

const PriceTable& price_snapshot() {
  static const PriceTable table = [] {
    PriceTable parsed = parse_prices(embedded::aws_prices(), "the built-in prices");
    parsed.date = "early 2026";
    parsed.source = "skypilot-catalog, commit 00148f2af367";
    return parsed;
  }();
  return table;
}

std::vector<std::string> PriceTable::regions() const {
  std::set<std::string> names;
  for (const Price& price : prices) names.insert(price.region);
  return {names.begin(), names.end()};
}

const Price& PriceTable::find(const std::string& type, const std::string& region) const {
  std::set<std::string> types;
  std::vector<std::string> elsewhere;
  for (const Price& price : prices) {
    if (price.type == type && price.region == region) return price;
    if (price.type == type) elsewhere.push_back(price.region);
    types.insert(price.type);
  }
  const std::vector<std::string> all = regions();
  if (std::find(all.begin(), all.end(), region) == all.end())
    throw Error(ErrorCode::not_found, "there are no prices of --region " + quote(region),
                "the prices of " + date + " are of " + join(all, ", "));
  if (!elsewhere.empty())
    throw Error(ErrorCode::not_found, "there is no price of --type " + quote(type) + " in --region " + region,
                "there is one in " + join(elsewhere, ", "));
  const std::string near = nearest(type, {types.begin(), types.end()});
  throw Error(ErrorCode::not_found, "there is no price of --type " + quote(type),
              near.empty() ? "lockstep cloud prices lists the types" : "did you mean " + near + "?");
}

}  // namespace lockstep::cloud
