#include <map>

#include "lockstep/base/error.h"
#include "lockstep/cloud/aws.h"

namespace lockstep::cloud {

PriceTable live_prices(const AwsBridge& bridge, const std::string& region) {
  const PriceTable& known = price_snapshot();
  std::map<std::string, Price> kinds;  // what a machine is does not change
  for (const Price& price : known.prices) kinds.emplace(price.type, price);
  Json types = Json::array();
  for (const auto& [type, price] : kinds) types.push_back(type);
  PriceTable table{.date = "today", .source = "AWS's price list", .prices = {}};
  const Json answer = bridge.ask("prices", region, {{"types", types}});
  for (const Json& one : answer["prices"]) {
    const auto kind = kinds.find(one.value("type", ""));
    if (kind == kinds.end()) continue;
    Price price = kind->second;
    price.region = region;
    price.on_demand = one.value("on_demand", 0.0);
    price.spot = one.value("spot", 0.0);
    price.spot_zone = one.value("zone", "");
    table.prices.push_back(price);
  }
  if (table.prices.empty())
    throw Error(ErrorCode::cluster, "AWS's price list has none of the types in " + region,
                "leave out --prices live");
  return table;
}

}  // namespace lockstep::cloud
