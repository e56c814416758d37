#include "lockstep/data/collect.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/data/internal/kinds.h"
#include "lockstep/data/internal/mini_batch_check.h"

namespace lockstep::data {

Collected collect(const NextMiniBatch& next) {
  Collected collected;
  Images all;
  all.path = "mini-batches";
  int64_t number = 0, classes = 0;
  while (const auto batch = next()) {
    check_mini_batch(*batch, ++number,
                     {static_cast<int64_t>(all.labels.size()), collected.mini_batch_size, all.size});
    if (batch->images.scalar_type() != at::kByte) {
      throw Error(ErrorCode::invalid_option,
                  "mini-batch " + std::to_string(number) + " has images of " +
                      std::string(c10::toString(batch->images.scalar_type())) + " " +
                      c10::str(batch->images.sizes()),
                  "give bytes; a ParallelWrapper's fit over an iterator takes float32 too");
    }
    const at::Tensor images = batch->images.contiguous(), labels = batch->labels.to(at::kLong).contiguous();
    if (number == 1) {
      collected.mini_batch_size = images.size(0);
      all.size = {images.size(1), images.size(2), images.size(3)};
    }
    all.pixels.insert(all.pixels.end(), images.const_data_ptr<uint8_t>(),
                      images.const_data_ptr<uint8_t>() + images.numel());
    all.labels.insert(all.labels.end(), labels.const_data_ptr<int64_t>(),
                      labels.const_data_ptr<int64_t>() + labels.numel());
    classes = std::max(classes, labels.max().item<int64_t>() + 1);
  }
  if (number == 0) throw Error(ErrorCode::invalid_option, "there are no mini-batches to train on");
  for (int64_t label = 0; label < classes; ++label) all.classes.push_back(std::to_string(label));
  collected.dataset = source_of(std::move(all), "mini-batches", {}).dataset;
  return collected;
}

}  // namespace lockstep::data
