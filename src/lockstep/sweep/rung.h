// The trials that have come to a rung, in the order of their results. A rung of 10,000 trials costs no more
// to ask than one of ten: the stop rules ask after each outcome.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

namespace lockstep::sweep {

/// One thread.
class Rung {
 public:
  /// The less the better; of equal losses the trial that began first.
  struct Place {
    double loss = 0;
    int64_t trial = 0;
    bool operator<(const Place& other) const {
      return std::pair(loss, trial) < std::pair(other.loss, other.trial);
    }
  };

  /// parts: the best 1 / parts of the trials, rounded down, are its best part; at least 2
  explicit Rung(int64_t parts) : parts_(static_cast<size_t>(parts)) {}

  /// Each trial once. loss: a number that is finite
  void add(const Place& place);
  size_t size() const { return best_.size() + others_.size(); }
  /// Number of trials in the best part.
  size_t part() const { return best_.size(); }
  /// Whether the trial, which has been added, is in the best part.
  bool is_in_part(const Place& place) const { return !best_.empty() && !(*best_.rbegin() < place); }
  /// Whether no other trial is better than this one, which has been added.
  bool is_best(const Place& place) const;
  /// The median of the losses of a rung with two parts and at least one trial; of an even number the mean of
  /// the two in the middle.
  double median() const;

 private:
  size_t parts_;
  std::set<Place> best_, others_;
};

}  // namespace lockstep::sweep
