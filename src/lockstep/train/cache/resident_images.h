// Decoded images in a GPU's memory. Mini-batches are gathered there, so only the samples' indices are sent to
// the GPU.
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

/// Whether images are kept on the GPU, and the reason in words; empty if there is nothing to say, as on a
/// CPU.
struct ResidentChoice {
  bool use = false;
  std::string reason;
};

/// Decides by the plan's device, data and features, and by --resident. free_bytes: of the plan's GPU; not
/// used on a CPU. Throws invalid_option if --resident requires them and they cannot be kept there.
ResidentChoice choose_resident(const Plan& plan, Resident asked, int64_t free_bytes);

/// The size of the training and held-out images.
int64_t resident_bytes(const Plan& plan);

/// What they take on a GPU whose memory is all free; 0: they are not kept there. Trials that follow each
/// other find other amounts of free memory. Throws as choose_resident.
int64_t most_resident_bytes(const Plan& plan, Resident asked, int64_t total_bytes);

/// All images of a set, u8, on one device. Call load(), then fill() from any thread.
class ResidentImages {
 public:
  /// Takes the memory. Throws LibTorch's error if there is not enough.
  ResidentImages(std::shared_ptr<const data::ImageSet> images, at::Device device);

  /// Reads the images with this number of threads. Stops between groups. Throws what reading an image throws.
  void load(int64_t threads, const std::stop_token& stop);

  /// Gives a worker's shards of one mini-batch their images, on the device. The shards come from a queue
  /// without images (QueueOptions::images_wanted).
  void fill(std::vector<data::Shard>& shards) const;

  const data::ImageSet& images() const { return *images_; }
  int64_t bytes() const { return static_cast<int64_t>(kept_.nbytes()); }

 private:
  void expect(int64_t begin, int64_t end) const;
  std::shared_ptr<const data::ImageSet> images_;
  at::Tensor kept_;  // [samples, C * H * W]
};

/// Takes memory on the device for all of these sets. If there is not enough, it calls `warn` and returns none
/// of them, or throws device or out_of_memory if they are required.
std::vector<ResidentImages> take_resident(const std::vector<std::shared_ptr<const data::ImageSet>>& sets,
                                          at::Device device, bool required,
                                          const std::function<void(std::string)>& warn);

}  // namespace lockstep::train
