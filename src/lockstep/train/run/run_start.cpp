#include "lockstep/train/run/run_start.h"

#include "lockstep/base/error.h"
#include "lockstep/data/listed_below.h"
#include "lockstep/device/isa.h"
#include "lockstep/io/byte_store.h"
#include "lockstep/train/loop/ranks.h"
#include "lockstep/train/run/standing.h"

namespace lockstep::train {
namespace {

record::RunFolder open_run_folder(const TrainingRequest& request, const Options& options) {
  if (continues_standing(request)) return record::RunFolder::open(request.standing->output);
  if (options.resume) {
    if (options.output.empty())
      throw Error(ErrorCode::invalid_option, "--resume needs the folder of the run to continue",
                  "add --output RUN");
    return record::RunFolder::open(options.output);
  }
  return create_run_folder(request, options);
}

[[noreturn]] void refuse_without_options(const std::filesystem::path& folder, bool has_checkpoint) {
  const std::string run = "the run in \"" + folder.string() + "\" ";
  if (has_checkpoint) {
    throw Error(ErrorCode::not_found,
                run + "has a checkpoint but no options.json, so it is unknown how it was trained",
                "restore the file, or start a new run with another --output");
  }
  throw Error(ErrorCode::not_found,
              run + "ended before it had written its options.json, so there is nothing to resume",
              "repeat its command without --resume");
}

// Before the first checkpoint nothing was learned, so options may still change. The plan is then made anew.
void take_options_of_run(RunStart& start, const Options& asked, const std::vector<std::string>& given) {
  const Change change = start.checkpoint ? Change::refused : Change::allowed;
  start.options = resumed_options(asked, start.manifest->options, given, change);
  if (change == Change::allowed && !same_training(start.options, start.manifest->options))
    start.manifest.reset();
}

// The attempt before had other data and options, maybe, and the run begins from its start.
void remove_best(const record::RunPaths& paths) {
  std::error_code none;
  for (const auto& file : {paths.best_weights(), paths.confusion()}) std::filesystem::remove(file, none);
}

RunStart open_run(const TrainingRequest& request, const Options& asked) {
  check_values(asked);
  RunStart start{.folder = open_run_folder(request, asked), .options = asked};
  const std::filesystem::path& folder = start.folder->paths().folder;
  if (asked.resume) {
    start.manifest = read_manifest(start.folder->paths().options());
    start.checkpoint = last_checkpoint(folder);
    if (!start.manifest) refuse_without_options(folder, start.checkpoint.has_value());
    take_options_of_run(start, asked, request.given);
  }
  if (asked.resume || continues_standing(request)) remove_unfinished(folder);
  if (asked.resume && !start.checkpoint) remove_best(start.folder->paths());
  start.options.output = folder.string();
  if (start.checkpoint) {
    start.state = start.checkpoint->state;
  } else if (continues_standing(request)) {
    start.state = request.standing->snapshot.state;
  }
  return start;
}

}  // namespace

std::string run_name(const TrainingRequest& request) {
  if (request.folder.empty()) return request.network.empty() ? "run" : request.network.name();
  const std::string name = io::short_name(request.folder.string());
  return name.empty() ? "run" : name;
}

record::RunFolder create_run_folder(const TrainingRequest& request, const Options& options) {
  const bool is_named = !options.output.empty();
  const std::string name = run_name(request);
  const std::filesystem::path folder =
      is_named ? std::filesystem::path(options.output) : record::default_name(name);
  const std::string train = request.dataset.empty() ? request.folder.string() : "";
  if (options.on_bad_sample == data::OnBadSample::fail) {
    for (const std::string& data : {train, options.validation, options.test}) {
      if (!data::is_listed_below(folder, data)) continue;
      throw Error(ErrorCode::invalid_option,
                  "the run folder \"" + folder.string() + "\" would lie among the images of \"" + data + "\"",
                  is_named ? "name an --output outside of the data"
                           : "add an --output outside of the data, or begin in another folder");
    }
  }
  return is_named ? record::RunFolder::create(folder) : record::RunFolder::create_numbered(name);
}

RunStart start_run(const TrainingRequest& request, const Options& asked, comm::Communicator& comm) {
  RunStart start = comm.rank() == 0 ? open_run(request, asked) : RunStart{.options = asked};
  const Json of_rank_0 = broadcast_json(
      comm, {{"options", lockstep::to_json(start.options)}, {"state", lockstep::to_json(start.state)}});
  read_json(of_rank_0["options"], start.options, "the options of rank 0");
  read_json(of_rank_0["state"], start.state, "the state of rank 0");
  device::check_isa(field_text(start.options, "isa"));  // at a resume, that of the run
  return start;
}

}  // namespace lockstep::train
