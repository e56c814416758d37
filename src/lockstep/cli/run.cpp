#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/command_words.h"
#include "lockstep/cli/host_ranks.h"
#include "lockstep/cli/lockstep_program.h"
#include "lockstep/cli/rank_processes.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/comm/rendezvous.h"
#include "lockstep/device/inventory.h"
#include "lockstep/jobs/job_run.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kMostHostsBytes = 1 << 20;
constexpr std::chrono::seconds kBeforeRestart{1};

std::vector<std::string> passed_variables(const std::vector<std::string>& names) {
  std::vector<std::string> passed;
  for (char* const* entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry, name = variable.substr(0, variable.find('='));
    const bool is_ours =
        name.starts_with("LOCKSTEP_") || name.starts_with("NCCL_") || name.starts_with("GLOO_");
    if (is_ours || std::find(names.begin(), names.end(), name) != names.end()) passed.emplace_back(variable);
  }
  return passed;
}

RanksEnd run_here(RankProgram program, const std::string& run_folder, Console& console) {
  const comm::MeetingPlace place;
  program.address = place.address();
  program.port = place.port();
  program.secret = place.secret();
  program.world = program.ranks;
  const bool has_run = program.restarts > 0 && !run_folder.empty() && jobs::has_begun(run_folder);
  if (has_run && std::find(program.words.begin(), program.words.end(), "--resume") == program.words.end())
    program.words.emplace_back("--resume");
  return run_ranks(program, {.print = [&](std::string_view text) { console.print(text); },
                             .note = [&](std::string_view text) { console.note(text); }});
}

HostProgram on_hosts(const RunSettings& settings, RankProgram program) {
  const std::string hosts = read_file(settings.hosts, kMostHostsBytes);
  HostProgram asked{.hosts = with_context([&] { return "while reading " + quote(settings.hosts); },
                                          [&] { return read_hosts(hosts); }),
                    .ranks = settings.ranks,
                    .lockstep = settings.program.empty() ? lockstep_program().string() : settings.program};
  program.environment = passed_variables(settings.pass);
  if (program.words.front() == "lockstep") program.words.front() = asked.lockstep;
  asked.program = std::move(program);
  return asked;
}

std::string text_of(const RankFailure& failure) {
  if (failure.rank < 0) return "the ranks on " + failure.host + " were lost: " + failure.how;
  return "rank " + std::to_string(failure.rank) + " on " + failure.host + " " + failure.how;
}

void tell(const RankFailure& failure, const std::string& then, Console& console) {
  console.note("lockstep: " + text_of(failure) + "; " + then + "\n" +
               (failure.last_words.empty()
                    ? ""
                    : "  its last output:\n    " + join(split(failure.last_words, '\n'), "\n    ") + "\n"));
}

}  // namespace

int run_run(const Call& call, Console& console) {
  const auto settings = settings_of<RunSettings>(call);
  const CommandWords command = read_command_words(call.words, call.words.front());
  const bool trains = command.is_ours && command.trains;
  if (trains && settings.max_restarts > 0 && command.output.empty())
    throw Error(ErrorCode::invalid_option, "--max-restarts needs to know the folder of the run",
                "add --output RUN to lockstep train");
  if (!settings.tee.empty() && settings.hosts.empty()) make_folders(settings.tee);
  RankProgram program{.words = call.words,
                      .ranks = settings.ranks > 0 ? settings.ranks : device::inspect().cores,
                      .max_restarts = settings.max_restarts,
                      .tee = settings.tee};
  const LauncherSignals signals;
  HostProgram asked;
  if (!settings.hosts.empty()) asked = on_hosts(settings, program);
  // Absolute: programs on hosts look for it before they enter this folder.
  asked.run_folder =
      trains && !command.output.empty() ? std::filesystem::absolute(command.output).string() : "";
  while (true) {
    const RanksEnd end =
        settings.hosts.empty() ? run_here(program, asked.run_folder, console) : run_on_hosts(asked, console);
    if (end.signal != 0) return static_cast<int>(launch::kSignalStatus + end.signal);
    if (end.failures.empty()) return 0;
    const RankFailure& failure = end.failures.front();
    const bool may_restart = !trains || failure.was_killed || failure.was_lost;
    if (program.restarts == settings.max_restarts || !may_restart) {
      tell(failure, "the others were ended", console);
      return static_cast<int>(failure.status);
    }
    asked.program.restarts = ++program.restarts;
    tell(failure,
         "all are started again (" + with_commas(program.restarts) + " of " +
             with_commas(settings.max_restarts) + ")",
         console);
    std::this_thread::sleep_for(kBeforeRestart);
  }
}

}  // namespace lockstep::cli
