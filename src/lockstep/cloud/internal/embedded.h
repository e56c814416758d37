// Files of the sources that the program contains.
#pragma once

#include <string_view>

namespace lockstep::cloud::embedded {

std::string_view aws_prices();    ///< data/aws-prices.csv
std::string_view aws_script();    ///< scripts/aws.py
std::string_view bootstrap();     ///< scripts/bootstrap.sh, in which a line stands for the next
std::string_view spot_notice();   ///< scripts/spot-notice.sh
std::string_view requirements();  ///< scripts/cloud-requirements.txt of the repository

}  // namespace lockstep::cloud::embedded
