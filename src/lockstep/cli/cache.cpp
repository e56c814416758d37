#include "lockstep/base/counted.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/run_options.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/train/planning/make_caches.h"

namespace lockstep::cli {

int run_cache(const Call& call, Console& console) {
  const auto [options, given] = training_options(call);
  train::TrainingRequest request;
  request.folder = call.words.front();
  request.given = given;  // so that the recipe chooses the image size that it chooses for train
  for (const train::CacheReport& report : train::make_caches(request, options)) {
    for (const data::BadSample& bad : report.bad)
      console.note("skipped \"" + bad.source + "\": " + bad.reason + "\n");
    const data::ImageFormat& format = report.format;
    console.print(report.file.string() + ": " + counted(report.images - std::ssize(report.bad), "image") +
                  " of " + std::to_string(format.channels) + "x" + std::to_string(format.height) + "x" +
                  std::to_string(format.width) + ", " + as_bytes(report.bytes) + "\n");
  }
  return 0;
}

}  // namespace lockstep::cli
