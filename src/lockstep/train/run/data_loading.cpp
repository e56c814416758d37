#include "lockstep/train/run/data_loading.h"

#include <algorithm>
#include <iterator>

#include "lockstep/base/describe.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/device/inventory.h"
#include "lockstep/train/run/run_files.h"

namespace lockstep::train {
namespace {

constexpr int64_t kMostBytes = int64_t{512} << 20;  // of images that wait to be taken

// The data as the rank's options and plan say, on a processor.
Prepared prepare_data(const Json& told) {
  Options options;
  read_json(told.at("options"), options, "what a rank told its loader");
  options.execution = Execution::cpu;
  options.devices.clear();
  options.workers = 0;
  options.resident = Resident::auto_;
  options.cuda_graphs = Recording::off;
  TrainingRequest request;
  request.folder = told.at("folder").get<std::string>();
  const Plan plan = read_plan(told.at("plan"));
  return prepare(request, options, /*dry=*/false, &plan);
}

}  // namespace

void take_from_loaders(const TrainingRequest& request, const Options& options, const Prepared& prepared) {
  const DataPlan& data = prepared.plan.data;
  if (request.line == nullptr || !request.dataset.empty() || data.streamed ||
      data.format.kind != data::SampleKind::image || data.format.jpeg_decoder != nullptr)
    return;
  // Larger than the network's input where random parts are cut out.
  const int64_t bytes = prepared.train->image_bytes();
  const int64_t wanted = 2 * prepared.plan.machine.read_ahead * prepared.plan.step.mini_batch_size;
  const Json told{{"folder", request.folder.string()},
                  {"options", lockstep::to_json(options)},
                  {"plan", lockstep::to_json(prepared.plan)}};
  request.line->open(
      told.dump(), bytes,
      std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, std::min(data.train_count, kMostBytes / bytes))));
  prepared.train->load_from(request.line);
}

int64_t load_for_rank(data::LoadingEnd& end, const std::function<void(const std::string&)>& say) {
  int64_t count = 0;
  while (const auto text = end.next()) {
    try {
      const Prepared prepared = prepare_data(parse_json(*text));
      count += end.serve(device::inspect().cores, [&](int64_t index, std::span<uint8_t> image) {
        const int64_t bytes = prepared.train->image_bytes();
        if (std::ssize(image) != bytes)
          throw Error(ErrorCode::internal, "a place for an image of " + with_commas(bytes) + " bytes has " +
                                               with_commas(std::ssize(image)));
        prepared.train->decode(index, image);
      });
    } catch (const Error& error) {
      say(error.message());
    }
  }
  return count;
}

}  // namespace lockstep::train
