#include "lockstep/cli/engine.h"

#include <algorithm>
#include <array>
#include <exception>
#include <string_view>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/cli/failure.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/launch/launcher.h"
#include "lockstep/device/failure.h"
#include "lockstep/jobs/attempt_error.h"

namespace lockstep::cli {
namespace {

struct EngineCommand {
  std::string_view name;
  int (*run)(const Call& call, Console& console);
};

constexpr std::array<EngineCommand, 25> kEngineCommands{{
    {"train", run_train},
    {"plan", run_plan},
    {"cache", run_cache},
    {"evaluate", run_evaluate},
    {"predict", run_predict},
    {"report", run_report},
    {"network show", run_network_show},
    {"network list", run_network_list},
    {"export", run_export},
    {"import", run_import},
    {"weights show", run_weights_show},
    {"layer show", run_layer_show},
    {"data show", run_data_show},
    {"diff", run_diff},
    {"studio", run_studio},
    {"run", run_run},
    {"doctor", run_doctor},
    {"bench scaling", run_bench_scaling},
    {"host-ranks", run_host_ranks},
    {"sweep-trials", run_sweep_trials},
    {"sweep-check", run_sweep_check},
    {"bench-limits", run_bench_limits},
    {"bench-all-reduce", run_bench_all_reduce},
    {"bench-ranks", run_bench_ranks},
    {"options-markdown", run_options_markdown},
}};

const EngineCommand& engine_command(const Verb& verb) {
  const auto found = std::find_if(kEngineCommands.begin(), kEngineCommands.end(),
                                  [&](const EngineCommand& command) { return command.name == verb.name; });
  if (found == kEngineCommands.end())
    throw Error(ErrorCode::internal, "the engine has no command \"" + verb.name + "\"");
  return *found;
}

int run_here(const Verb& verb, const Call& call, Console& console) {
  try {
    return engine_command(verb).run(call, console);
  } catch (const ClosedPipe&) {
    throw;
  } catch (const Error& error) {
    // A rank that no signal stopped ended because another rank did.
    if (error.code() != ErrorCode::cancelled || !call.launch) {
      if (call.launch) jobs::leave_error(error);
      throw;
    }
    console.note(failure_text(error));
    return call.launch->lost_status;
  } catch (...) {
    const Error error = as_error(std::current_exception(), device::error_of);
    if (call.launch) jobs::leave_error(error);
    throw Error(error);
  }
}

}  // namespace

std::vector<std::string> engine_command_names() {
  std::vector<std::string> names;
  for (const EngineCommand& command : kEngineCommands) names.emplace_back(command.name);
  return names;
}

RunInEngine engine_commands(std::function<const char*(const char*)> variable) {
  return [variable = std::move(variable)](const Verb& verb, Call call, Console& console) {
    if (verb.joins_ranks) call.launch = launch::read_launch(variable);
    return run_here(verb, call, console);
  };
}

}  // namespace lockstep::cli
