#include "lockstep/train/cache/feature_files.h"

#include <algorithm>
#include <span>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/freeze.h"
#include "lockstep/train/cache/features.h"
#include "lockstep/train/cache/image_caches.h"

namespace lockstep::train {
namespace {

constexpr uint64_t kWay = 2;  // increase it when a change of the computation changes the bits of features

uint64_t hash_of_tensor(const std::string& name, const at::Tensor& tensor, uint64_t seed) {
  // The numbers of the file and of the run may have different widths.
  const at::Tensor values =
      tensor.detach()
          .cpu()
          .to(at::isFloatingType(tensor.scalar_type()) ? at::kDouble : tensor.scalar_type())
          .contiguous();
  const uint64_t named =
      hash_of(name, hash_of(std::as_bytes(std::span(values.sizes().data(), values.sizes().size())), seed));
  return hash_of(std::span(static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()), named);
}

uint64_t hash_of_numbers(const std::vector<double>& numbers, uint64_t seed) {
  return hash_of(std::as_bytes(std::span(numbers)), seed + numbers.size());
}

}  // namespace

uint64_t hash_of_frozen(nn::NamedTensors state, const nn::Instance& prototype, size_t steps) {
  std::ranges::sort(state, {}, [](const auto& named) { return named.first; });
  uint64_t hash = 0;
  for (size_t i = 0; i < steps; ++i) {
    const std::string& step = prototype.layers[i].name;
    hash = hash_of(step, hash);
    for (const auto& [name, tensor] : state) {
      if (nn::is_at_or_below(name, step)) hash = hash_of_tensor(name, tensor, hash);
    }
  }
  return hash;
}

data::RecordsKey features_key(const data::ImageSet& images, const nn::Network& network, const Plan& plan,
                              uint64_t frozen, int64_t record_bytes) {
  uint64_t identity =
      data::hash_of_format(images.format(), hash_of(images.dataset().store().identity(), kWay));
  identity = hash_of_numbers(plan.data.deviation, hash_of_numbers(plan.data.mean, identity));
  identity = hash_of(as_hex(frozen) + network.spec().dump(), identity);
  identity = hash_of(plan.machine.fingerprint + "/" +
                         enum_names(plan.step.precision)[static_cast<size_t>(plan.step.precision)] + "/" +
                         enum_names(plan.step.kernels)[static_cast<size_t>(plan.step.kernels)],
                     identity);
  return {.identity = identity,
          .content = data::root_of(images.dataset()).store().content_hash(),
          .count = Features::records(images.size()),
          .record_bytes = record_bytes};
}

std::string feature_file_obstacle(const data::Dataset& dataset, int64_t bytes, const CacheChoice& choice) {
  if (choice.place == "off") return "--cache off";
  const data::Datastore& store = data::root_of(dataset).store();
  if (choice.place == "auto") return automatic_obstacle(store, bytes, choice);
  if (bytes > choice.bytes()) return "more than --cache-size allows";
  return data::image_cache_obstacle(store);
}

OpenedFeatures open_features(const data::RecordsKey& key, const CacheChoice& choice) {
  const std::string name = as_hex(key.identity) + ".features";
  if (choice.place == "auto") {
    auto found = open_automatic_file(name, key, choice);
    return {std::move(found.file), std::move(found.refusal)};
  }
  try {
    return {data::RecordFile::find_or_make(std::filesystem::path(choice.place) / name, key)};
  } catch (const Error& error) {
    return {nullptr, error.message()};
  }
}

}  // namespace lockstep::train
