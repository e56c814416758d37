// What became of a trial's process: read from its run folder, its output and how it ended.
#pragma once

#include <optional>
#include <string>

#include "lockstep/sweep/internal/trial_places.h"
#include "lockstep/sweep/sweep_log.h"

namespace lockstep::sweep {

struct TrialResult {
  std::optional<Outcome> outcome{};  ///< nothing: it was lost, and is trained again
  std::string lost{};                ///< why
  std::optional<double> printed{};   ///< by another program than train, before it was lost; finite
  std::string hint{};                ///< for a person, if it is lost each time; may be empty
  double seconds = 0;                ///< of training, as far as the run knows
  std::string weights_hash{};
};

/// A result whose metric is not a finite number is a failure.
TrialResult result_of(const SweepPaths& paths, const SweepSpec& spec, const EndedTrial& trial);

/// Of a trial that is to be trained, but whose newest attempt was asked to end: the sweep was killed before
/// it logged that, or the request came after the attempt's last look. The trial ends with what it has.
/// Nothing if nobody has asked.
std::optional<TrialResult> result_of_asked_end(const SweepPaths& paths, const SweepSpec& spec,
                                               const Segment& segment);

/// Ends a trial that has begun and that nobody trains now where it is. Another program than train has what
/// its last attempt had printed: `printed`, or else what is in its output. Nothing: its run ends when its
/// turn comes.
std::optional<TrialResult> end_between_attempts(const SweepPaths& paths, const SweepSpec& spec,
                                                const Segment& segment, std::optional<double> printed);

/// What to change where trials end for lack of memory.
std::string memory_hint(const SweepSpec& spec);

/// The line of the log that says it; the result has an outcome.
LogLine line_of(const Segment& segment, const TrialResult& result);
/// The same of a result without one.
LogLine line_of_loss(const SweepPaths& paths, const Segment& segment, const TrialResult& result);

}  // namespace lockstep::sweep
