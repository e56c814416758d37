// Messages between the GPUs of several ranks. What a group's calls mean is comm's affair
// (comm/gpu_communicator.cpp); this carries bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"

namespace lockstep::device {

/// One rank's side. One thread at a time.
class GpuLink {
 public:
  virtual ~GpuLink() = default;

  /// Where this rank's messages begin and end.
  virtual at::Device device() const = 0;

  /// What carries them, for plans and messages: "NCCL".
  virtual std::string way() const = 0;

  /// Contiguous values on device(), one or more.
  struct Message {
    at::Tensor values;
    int64_t peer;
  };
  /// Calls `check` now and then while a rank waits; what it throws ends the wait.
  using Check = std::function<void()>;

  /// Sends and receives all of them, and returns when they are there. Between two ranks the i-th sent is the
  /// i-th received, of the same size. Throws what carries them throws, or what `check` does; the link is then
  /// of no more use.
  virtual void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                        const Check& check) = 0;
};

/// Where the ranks of one link meet.
struct GpuLinkPlace {
  std::string token;  ///< GpuLibrary::link_token of one of them
  Share share;
  int64_t gpu = 0;       ///< this rank's, no other rank's
  GpuLink::Check check;  ///< while it waits for the others
};

}  // namespace lockstep::device
