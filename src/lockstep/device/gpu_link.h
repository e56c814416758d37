// Messages between the GPUs of several ranks. This only carries bytes; comm/gpu_communicator.cpp gives the
// calls of a group their meaning.
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

  /// The device of this rank's messages.
  virtual at::Device device() const = 0;

  /// The means of communication, for plans and messages: "NCCL".
  virtual std::string way() const = 0;

  /// Contiguous values on device(), one or more.
  struct Message {
    at::Tensor values;
    int64_t peer;
  };
  /// Called regularly while a rank waits; what it throws ends the wait.
  using Check = std::function<void()>;

  /// Sends and receives all of them, and returns when they have arrived. Between two ranks the i-th sent
  /// message is the i-th received, of the same size. Throws the errors of the link and of `check`; the link
  /// is then unusable.
  virtual void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                        const Check& check) = 0;
};

/// Where the ranks of one link meet.
struct GpuLinkPlace {
  std::string token;  ///< GpuLibrary::link_token of one of them
  Share share;
  int64_t gpu = 0;       ///< this rank's, used by no other rank
  GpuLink::Check check;  ///< while it waits for the others
};

}  // namespace lockstep::device
