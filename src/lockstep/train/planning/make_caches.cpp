#include "lockstep/train/planning/make_caches.h"

#include "lockstep/base/error.h"
#include "lockstep/train/planning/prepare.h"

namespace lockstep::train {

std::vector<CacheReport> make_caches(const TrainingRequest& request, const Options& options) {
  if (options.cache == "off")
    throw Error(ErrorCode::invalid_option, "--cache off leaves nothing to make",
                "leave it out, or name a folder");
  Options only_look = options;
  only_look.cache = "off";
  const Prepared prepared = prepare(request, only_look, /*dry=*/true);
  const data::ImageFormat& format = prepared.plan.data.format;
  const CacheChoice choice{options.cache, options.cache_size};
  std::vector<CacheReport> reports{make_cache(data::root_of(prepared.train->dataset()),
                                              request.folder.string(), prepared.train->format(), choice,
                                              options.on_bad_sample)};
  if (!options.validation.empty())
    reports.push_back(make_cache(data::root_of(prepared.validation->dataset()), options.validation, format,
                                 choice, options.on_bad_sample));
  if (!options.test.empty())
    reports.push_back(make_cache(data::root_of(prepared.test->dataset()), options.test, format, choice,
                                 options.on_bad_sample));
  return reports;
}

}  // namespace lockstep::train
