#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/rank_processes.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/cli/stop_signals.h"
#include "lockstep/comm/rendezvous.h"
#include "lockstep/device/inventory.h"

namespace lockstep::cli {
namespace {

struct RunSettings {
  int64_t ranks = 0;
  std::string tee;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Ranks");
    field("ranks", self.ranks, "number of processes; 0: one per core", between(0, 1024));
    field("tee", self.tee,
          "folder for a log of each rank's output (rank-0.log, rank-1.log, ...), in addition to what is "
          "shown; empty: "
          "none");
  };
};

}  // namespace

std::vector<FieldInfo> run_fields() { return fields_of<RunSettings>(); }

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
                    : "  its last words:\n    " + join(split(failure.last_words, '\n'), "\n    ") + "\n"));
  return failure.status;
}

}  // namespace lockstep::cli
