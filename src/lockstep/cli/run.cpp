#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/rank_processes.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/cli/stop_signals.h"
#include "lockstep/comm/rendezvous.h"
#include "lockstep/device/inventory.h"

namespace lockstep::cli {
namespace {}  // namespace

int run_run(const Call& call, Console& console) {
  const auto settings = settings_of<RunSettings>(call);
  if (!settings.tee.empty()) make_folders(settings.tee);
  const LauncherSignals signals;
  const comm::MeetingPlace meeting_place;
  const RanksEnd end = run_ranks({.words = call.words,
                                  .ranks = settings.ranks > 0 ? settings.ranks : device::inspect().cores,
                                  .address = meeting_place.address(),
                                  .port = meeting_place.port(),
                                  .secret = meeting_place.secret(),
                                  .tee = settings.tee},
                                 console);
  if (end.signal != 0) return kSignalStatus + end.signal;
  if (end.failures.empty()) return 0;
  const RankFailure& failure = end.failures.front();
  console.note("lockstep: rank " + std::to_string(failure.rank) + " on " + host_name() + " " + failure.how +
               "; the others were ended\n" +
               (failure.last_words.empty()
                    ? ""
                    : "  its last output:\n    " + join(split(failure.last_words, '\n'), "\n    ") + "\n"));
  return failure.status;
}

}  // namespace lockstep::cli
