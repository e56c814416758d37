// What others ask of a run while it trains (record/requests.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/requests.h"

namespace lockstep::train {

/// Any thread asks; the first worker of rank 0 looks between steps.
class Wishes {
 public:
  std::stop_source stop;                ///< end now with a checkpoint
  std::atomic<bool> finish{false};      ///< end after this step and keep the weights
  std::atomic<bool> checkpoint{false};  ///< save a checkpoint after a step
  std::atomic<int64_t> log_every{0};    ///< log every so many steps; 0: as often as the run would

  void grant(const record::Request& asked);
  /// Who has asked for the end; empty if nobody has.
  std::string asked_by() const;
  /// The run is to end with this error.
  void fail(const Error& error);
  /// Throws it.
  void check() const;

 private:
  mutable std::mutex mutex_;
  std::string asked_by_;
  std::optional<Error> error_;
  std::atomic<bool> failed_{false};
};

/// The event that answers a request.
record::Answer answer_to(const record::Request& asked);

/// For the user, if the run ends because of the request; else empty.
std::string ending_notice(const record::Request& asked);

}  // namespace lockstep::train
