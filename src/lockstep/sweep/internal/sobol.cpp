#include "lockstep/sweep/internal/sobol.h"

#include <algorithm>

namespace lockstep::sweep {

SobolNumbers::SobolNumbers(size_t dimensions, Random& random)
    : engine_(std::max<size_t>(1, dimensions)), shifts_(dimensions) {
  for (uint64_t& shift : shifts_) shift = random.next();
}

std::vector<double> SobolNumbers::at(int64_t index) {
  engine_.seed(static_cast<uint64_t>(index));
  std::vector<double> places(shifts_.size());
  for (size_t i = 0; i < places.size(); ++i)
    places[i] = static_cast<double>((engine_() ^ shifts_[i]) >> 11) * 0x1p-53;
  return places;
}

}  // namespace lockstep::sweep
