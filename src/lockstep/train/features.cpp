#include "lockstep/train/features.h"

#include <algorithm>

#include <ATen/Functions.h>

namespace lockstep::train {
namespace {

constexpr int64_t kGroup = 16;  // samples

}  // namespace

Features::Features(std::shared_ptr<const data::PictureSet> pictures) : pictures_(std::move(pictures)) {}

void Features::compute(Share share, Replica& replica, const std::stop_token& stop) {
  const data::PictureFormat& format = pictures_->format();
  const int64_t count = pictures_->size();
  const Range own = part_of(divided_up(count, kGroup), share.size, share.rank);
  for (int64_t group = own.begin; group < own.end && !stop.stop_requested(); ++group) {
    const int64_t first = group * kGroup, size = std::min(kGroup, count - first);
    const at::Tensor pictures = at::empty({size, format.channels, format.height, format.width}, at::kByte);
    const int64_t bytes = pictures_->picture_bytes();
    for (int64_t i = 0; i < size; ++i) pictures_->read(first + i, {pictures.mutable_data_ptr<uint8_t>() + i * bytes, static_cast<size_t>(bytes)});
    keep(first, replica.features(pictures).cpu());
  }
}

void Features::keep(int64_t first, const at::Tensor& output) {
  {
    const std::lock_guard lock(mutex_);
    if (!kept_.defined()) {
      shape_ = output.sizes().slice(1).vec();
      channels_last_ = output.dim() == 4 && !output.is_contiguous() && output.is_contiguous(at::MemoryFormat::ChannelsLast);
      kept_ = at::empty({pictures_->size(), output.numel() / output.size(0)}, output.options().memory_format(at::MemoryFormat::Contiguous));
    }
  }
  const at::Tensor ordered = channels_last_ ? output.permute({0, 2, 3, 1}) : output;
  kept_.narrow(0, first, output.size(0)).copy_(ordered.reshape({output.size(0), -1}));
}

at::Tensor Features::rows(const at::Tensor& samples) const {
  const at::Tensor rows = kept_.index_select(0, samples);
  std::vector<int64_t> shape = shape_;
  shape.insert(shape.begin(), samples.numel());
  if (!channels_last_) return rows.view(shape);
  return rows.view({shape[0], shape[2], shape[3], shape[1]}).permute({0, 3, 1, 2});
}

}  // namespace lockstep::train
