// What machines cost: a dated table that the program contains, or a file of the same form.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cloud {

/// One type of machine in one region.
struct Price {
  std::string type;
  std::string region;
  double on_demand = 0;  ///< US dollars an hour
  double spot = 0;       ///< lowest of the region's zones, without local zones; 0: not known
  std::string spot_zone{};
  int64_t vcpus = 0;
  double memory_gib = 0;
  std::string gpu{};  ///< empty: none
  int64_t gpus = 0;
  double gpu_memory_gib = 0;  ///< of each
};

struct PriceTable {
  std::string date;    ///< as people read it: "early 2026"
  std::string source;  ///< where the figures are from
  std::vector<Price> prices;

  /// Throws not_found with the nearest type, or with the regions in which there is a price.
  const Price& find(const std::string& type, const std::string& region) const;
  std::vector<std::string> regions() const;
};

/// The prices of early 2026 that the program contains (data/aws-prices.csv).
const PriceTable& price_snapshot();

/// A file with the columns of data/aws-prices.csv, in any order. Throws corrupt_data with file, line, column
/// and value.
PriceTable read_prices(const std::filesystem::path& file);

/// The same for text. `name` is for messages.
PriceTable parse_prices(std::string_view text, const std::string& name);

}  // namespace lockstep::cloud
