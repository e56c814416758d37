// Sobol numbers (Joe and Kuo 2008, from Boost) with a random digital shift.
#pragma once

#include <cstdint>
#include <vector>

#include <boost/random/sobol.hpp>

#include "lockstep/base/seed.h"

namespace lockstep::sweep {

class SobolNumbers {
 public:
  SobolNumbers(size_t dimensions, Random& random);
  /// The number in each dimension, in [0, 1), of the point with this index.
  std::vector<double> at(int64_t index);

 private:
  boost::random::sobol engine_;
  std::vector<uint64_t> shifts_;
};

}  // namespace lockstep::sweep
