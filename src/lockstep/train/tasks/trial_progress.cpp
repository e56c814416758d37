#include "lockstep/train/tasks/trial_progress.h"

#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/view/trials.h"

namespace lockstep::train {

TrialProgress::TrialProgress(std::FILE* out)
    : queue_([trials = std::make_shared<view::Trials>(out)](const TrialEvent& sent) {
        trials->show(sent.trial, record::from_line(sent.event));
      }) {}

Listener tell_client(pool::Worker& worker, std::string trial) {
  return [&worker, trial = std::move(trial)](const record::Event& event) {
    if (worker.stop_token().stop_requested()) return;
    try {
      worker.send(TrialEvent{trial, record::to_line(event)});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::cancelled) throw;  // the call was stopped, so no one listens
    }
  };
}

}  // namespace lockstep::train
