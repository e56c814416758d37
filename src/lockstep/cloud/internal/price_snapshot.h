// The text of data/aws-prices.csv.
#pragma once

#include <string_view>

namespace lockstep::cloud {

std::string_view price_snapshot_text();

}  // namespace lockstep::cloud
