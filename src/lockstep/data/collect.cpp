#include "lockstep/data/collect.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "lockstep/data/internal/kinds.h"

namespace lockstep::data {
namespace {

// What came before.
struct Before {
  int64_t count = 0;            // samples
  int64_t mini_batch_size = 0;
  ImageSize size;
};

void check(const MiniBatch& batch, int64_t number, const Before& before) {
  const auto refuse = [&](const std::string& why, const std::string& hint = {}) {
    throw Error(ErrorCode::invalid_option, "mini-batch " + std::to_string(number) + " " + why, hint);
  };
  if (!batch.pictures.defined() || !batch.labels.defined()) refuse("has no pictures or no labels");
  const at::Tensor& pictures = batch.pictures;
  if (pictures.dim() != 4 || pictures.scalar_type() != at::kByte || !pictures.device().is_cpu() || pictures.size(0) == 0 || (pictures.size(1) != 1 && pictures.size(1) != 3)) {
    refuse("has pictures of " + std::string(c10::toString(pictures.scalar_type())) + " " + c10::str(pictures.sizes()), "give bytes [b,C,H,W] on the CPU, of 1 or 3 channels");
  }
  if (batch.labels.dim() != 1 || batch.labels.size(0) != pictures.size(0) || !at::isIntegralType(batch.labels.scalar_type(), /*includeBool=*/false)) {
    refuse("has labels of " + std::string(c10::toString(batch.labels.scalar_type())) + " " + c10::str(batch.labels.sizes()) + " for " + std::to_string(pictures.size(0)) + " pictures",
           "give a whole number for each picture");
  }
  if (batch.labels.min().item<int64_t>() < 0) refuse("has a negative label");
  if (number == 1) return;
  if (ImageSize{pictures.size(1), pictures.size(2), pictures.size(3)} != before.size) refuse("has pictures of another size than the first");
  if (before.count % before.mini_batch_size != 0 || pictures.size(0) > before.mini_batch_size) refuse("or the one before is of another size than the first, and only the last may be smaller");
}

}  // namespace

Collected collect(const NextMiniBatch& next) {
  Collected collected;
  Pictures all;
  all.path = "mini-batches";
  int64_t number = 0, classes = 0;
  while (const auto batch = next()) {
    check(*batch, ++number, {static_cast<int64_t>(all.labels.size()), collected.mini_batch_size, all.size});
    const at::Tensor pictures = batch->pictures.contiguous(), labels = batch->labels.to(at::kLong).contiguous();
    if (number == 1) {
      collected.mini_batch_size = pictures.size(0);
      all.size = {pictures.size(1), pictures.size(2), pictures.size(3)};
    }
    all.pixels.insert(all.pixels.end(), pictures.const_data_ptr<uint8_t>(), pictures.const_data_ptr<uint8_t>() + pictures.numel());
    all.labels.insert(all.labels.end(), labels.const_data_ptr<int64_t>(), labels.const_data_ptr<int64_t>() + labels.numel());
    classes = std::max(classes, labels.max().item<int64_t>() + 1);
  }
  if (number == 0) throw Error(ErrorCode::invalid_option, "there is no mini-batch to train on");
  for (int64_t label = 0; label < classes; ++label) all.classes.push_back(std::to_string(label));
  collected.dataset = source_of(std::move(all), "mini-batches", {}).dataset;
  return collected;
}

}  // namespace lockstep::data
