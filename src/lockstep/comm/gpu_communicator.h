// The communicator of ranks whose tensors are on GPUs.
#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/device/gpu_link.h"

namespace lockstep::comm {

/// A rank's link between GPUs, and a host communicator of any kind. Through the host communicator the ranks
/// agree on their calls, learn why their group broke, and send tensors that are on the CPU.
struct GpuPlace {
  std::shared_ptr<Communicator> host;
  std::shared_ptr<device::GpuLink> link;
};

/// Tensors on link->device() go over the link, in slices. Each rank adds up its own slice of all ranks'
/// tensors, in the order that the interface defines, and sends it to the others; so the bits are those of
/// every other communicator. A call waits until its sums are there. `options` gives the default timeout and
/// stop.
std::unique_ptr<Communicator> make_gpu_communicator(GpuPlace place, CommunicatorOptions options = {});

/// The links of ranks that are threads of this process, each with its own device. A receiving rank copies
/// directly from the sender's tensor.
class ThreadLinks {
 public:
  ThreadLinks();
  /// Any thread; once for each rank.
  std::unique_ptr<device::GpuLink> link(int64_t rank, at::Device device) const;

 private:
  struct Mailboxes;
  class Link;
  std::shared_ptr<Mailboxes> boxes_;
};

/// The link of `host`'s ranks, which may be processes on any machines, each with its own GPU. Collective.
/// Throws device where there is no link or where two ranks have the same GPU, and what a call of `host`
/// throws when not all ranks come.
std::unique_ptr<device::GpuLink> link_gpus(Communicator& host, int64_t gpu,
                                           const CommunicatorOptions& options = {});

/// The same, but connects at the first call that has tensors on the GPUs: most groups of a pool have no such
/// call.
std::unique_ptr<device::GpuLink> link_gpus_at_first_use(std::shared_ptr<Communicator> host, int64_t gpu,
                                                        CommunicatorOptions options = {});

}  // namespace lockstep::comm
