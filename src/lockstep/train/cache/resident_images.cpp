#include "lockstep/train/cache/resident_images.h"

#include <algorithm>
#include <numeric>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/device/failure.h"

namespace lockstep::train {
namespace {

constexpr double kShare = 0.25;            // of the GPU's free memory; a step needs the rest
constexpr int64_t kAhead = 64;             // images that loaders are told of before they are read
constexpr int64_t kGroupBytes = 64 << 20;  // read before they are sent

// The reason why images must be made on the host in every epoch, or are not needed; empty if there is none.
std::string obstacle(const Plan& plan) {
  if (plan.data.format.kind == data::SampleKind::sequence) return "sequences are kept on the host";
  if (plan.data.augment.any()) return "--augment changes the images on the host";
  if (plan.network.keep_features) return "the output of frozen layers is kept in place of images";
  return {};
}

}  // namespace

int64_t resident_bytes(const Plan& plan) {
  return (plan.data.train_count + plan.data.validation_count) * plan.data.format.size().bytes();
}

ResidentChoice choose_resident(const Plan& plan, Resident asked, int64_t free_bytes) {
  if (plan.machine.device == "cpu") return {};
  if (asked == Resident::off) return {false, "--resident off"};
  const std::string against = obstacle(plan);
  const std::string takes = as_bytes(resident_bytes(plan));
  if (asked == Resident::on) {
    if (!against.empty())
      throw Error(ErrorCode::invalid_option, "--resident on is impossible: " + against,
                  "leave out one of them");
    return {true, "asked for; " + takes};
  }
  if (!against.empty()) return {false, against};
  const bool fits = static_cast<double>(resident_bytes(plan)) <= kShare * static_cast<double>(free_bytes);
  return {fits, takes + (fits ? ", within " : ", more than ") + shortest(kShare) + " of the " +
                    as_bytes(free_bytes) + " that are free there (--resident)"};
}

int64_t most_resident_bytes(const Plan& plan, Resident asked, int64_t total_bytes) {
  return !plan.data.streamed && choose_resident(plan, asked, total_bytes).use ? resident_bytes(plan) : 0;
}

ResidentImages::ResidentImages(std::shared_ptr<const data::ImageSet> images, at::Device device)
    : images_(std::move(images)),
      kept_(at::empty({images_->size(), images_->image_bytes()},
                      at::TensorOptions(at::kByte).device(device))) {}

void ResidentImages::load(int64_t threads, const std::stop_token& stop) {
  const int64_t count = images_->size(), bytes = images_->image_bytes();
  const int64_t group = std::clamp<int64_t>(kGroupBytes / bytes, 1, std::max<int64_t>(1, count));
  const at::Tensor host = at::empty({group, bytes}, at::kByte);
  for (int64_t first = 0; first < count && !stop.stop_requested(); first += group) {
    const int64_t size = std::min(group, count - first);
    expect(first, first + kAhead);
    data::for_each_sample(size, std::max(threads, images_->parallel_reads()), [&](int64_t i) {
      if (i % kAhead == 0) expect(first + i + kAhead, first + i + 2 * kAhead);
      images_->read(first + i, {host.mutable_data_ptr<uint8_t>() + i * bytes, static_cast<size_t>(bytes)});
    });
    kept_.narrow(0, first, size).copy_(host.narrow(0, 0, size));
  }
}

void ResidentImages::expect(int64_t begin, int64_t end) const {
  std::vector<int64_t> indices(
      static_cast<size_t>(std::max<int64_t>(0, std::min(end, images_->size()) - begin)));
  std::iota(indices.begin(), indices.end(), begin);
  images_->expect(indices);
}

void ResidentImages::fill(std::vector<data::Shard>& shards) const {
  if (shards.empty()) return;
  int64_t count = 0;
  for (const data::Shard& shard : shards) count += shard.count;
  // A worker's shards are contiguous in memory, and their images must be so too (data::joined).
  const at::Tensor places =
      shards.front().samples.as_strided({count}, {1}).to(kept_.device(), /*non_blocking=*/true);
  const data::ImageFormat& format = images_->format();
  const at::Tensor all =
      kept_.index_select(0, places).view({count, format.channels, format.height, format.width});
  for (int64_t begin = 0; data::Shard & shard : shards) {
    shard.images = all.narrow(0, begin, shard.count);
    shard.samples = at::Tensor();
    begin += shard.count;
  }
}

std::vector<ResidentImages> take_resident(const std::vector<std::shared_ptr<const data::ImageSet>>& sets,
                                          at::Device device, bool required,
                                          const std::function<void(std::string)>& warn) {
  std::vector<ResidentImages> taken;
  try {
    for (const auto& set : sets) taken.emplace_back(set, device);
  } catch (...) {
    const Error error = device::error_of(std::current_exception());
    if (required) throw error;
    warn("the images stay on the host, for the GPU did not take them: " + error.message());
    return {};
  }
  return taken;
}

}  // namespace lockstep::train
