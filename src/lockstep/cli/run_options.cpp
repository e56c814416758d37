#include "lockstep/cli/run_options.h"

#include <algorithm>
#include <chrono>

#include "lockstep/base/error.h"
#include "lockstep/device/isa.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/train/run/run_files.h"

namespace lockstep::cli {
namespace {

// At a resume, the run's own --isa: the libraries choose their instructions once, before anything else of the
// run is read.
void pin_isa(const AskedOptions& asked) {
  const train::Options& options = asked.options;
  if (options.resume && !options.output.empty() && !asked.has("isa")) {
    const auto run = train::read_manifest(record::RunPaths{options.output}.options());
    if (run)
      return with_context([&] { return "as the run in \"" + options.output + "\" began with"; },
                          [&] { device::pin_isa(field_text(run->options, "isa")); });
  }
  device::pin_isa(field_text(options, "isa"));
}

}  // namespace

AskedOptions training_options(const Call& call) {
  AskedOptions asked = asked_options(call);
  pin_isa(asked);
  return asked;
}

train::Options inference_options(const Call& call) {
  Call of_inference = call;
  std::erase_if(of_inference.settings,
                [](const Setting& setting) { return !is_inference_option(setting.name); });
  const auto options = settings_of<train::Options>(of_inference);
  if (options.mini_batch_size.is_auto())
    throw Error(ErrorCode::invalid_option, "--mini-batch-size auto is only for training",
                "give a number, or remove the option");
  device::pin_isa(field_text(options, "isa"));
  return options;
}

comm::Joining joining_of(const Call& call, Console& console) {
  const auto settings = settings_of<RankSettings>(call);
  return {
      .kind = settings.communicator,
      .waiting = {.limit = std::chrono::seconds(settings.join_timeout),
                  .tell = [&console](const std::string& what) { console.note("lockstep: " + what + "\n"); }}};
}

}  // namespace lockstep::cli
