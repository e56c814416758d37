// Decoded images that lie in a GPU's memory, where mini-batches are gathered from them: only the samples'
// places travel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/data/image_set.h"
#include "lockstep/train/options/options.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// Whether the images lie there, and why, in words. Empty words: nothing to say, as on a CPU.
struct ResidentChoice {
  bool use = false;
  std::string reason;
};

/// By the plan's device, data and features, and by --resident. free_bytes: of the plan's GPU; not read on a
/// CPU. Throws invalid_option where they were asked for and cannot lie there.
ResidentChoice choose_resident(const Plan& plan, Resident asked, int64_t free_bytes);

/// What they take: the training and held-out images.
int64_t resident_bytes(const Plan& plan);

/// All images of a set, u8, on one device. load(), then fill() from any thread.
class ResidentImages {
 public:
  /// Takes the memory. Throws what LibTorch throws where there is not enough.
  ResidentImages(std::shared_ptr<const data::ImageSet> images, at::Device device);

  /// Reads them, with so many threads; stops between groups. Throws what reading an image throws.
  void load(int64_t threads, const std::stop_token& stop);

  /// Gives a worker's shards of one mini-batch their images, on the device. They come from a queue without
  /// images (QueueOptions::images_wanted).
  void fill(std::vector<data::Shard>& shards) const;

  const data::ImageSet& images() const { return *images_; }
  int64_t bytes() const { return static_cast<int64_t>(kept_.nbytes()); }

 private:
  std::shared_ptr<const data::ImageSet> images_;
  at::Tensor kept_;  // [samples, C * H * W]
};

/// Memory on the device for all of these sets, or, where it is not there, none of them and `warn` has said
/// so. Throws device or out_of_memory in place of that where they were asked for.
std::vector<ResidentImages> take_resident(const std::vector<std::shared_ptr<const data::ImageSet>>& sets,
                                          at::Device device, bool required,
                                          const std::function<void(std::string)>& warn);

}  // namespace lockstep::train
