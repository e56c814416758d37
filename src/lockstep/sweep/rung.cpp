#include "lockstep/sweep/rung.h"

#include <iterator>

namespace lockstep::sweep {

void Rung::add(const Place& place) {
  others_.insert(place);
  if (is_in_part(*others_.begin())) {  // it takes the place of the last one of the best part
    best_.insert(others_.extract(others_.begin()));
    others_.insert(best_.extract(std::prev(best_.end())));
  }
  if (best_.size() < size() / parts_) best_.insert(others_.extract(others_.begin()));
}

bool Rung::is_best(const Place& place) const {
  const std::set<Place>& first = best_.empty() ? others_ : best_;
  return !(*first.begin() < place);
}

double Rung::median() const {
  const double upper = others_.begin()->loss;
  return best_.size() == others_.size() ? (upper + best_.rbegin()->loss) / 2 : upper;
}

}  // namespace lockstep::sweep
