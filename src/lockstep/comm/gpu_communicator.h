// The communicator of ranks whose tensors lie on GPUs.
#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/device/gpu_link.h"

namespace lockstep::comm {

/// A rank's line between GPUs, and beside it the one by which the ranks agree on their calls, learn why their
/// group broke, and send what lies on the CPU: any communicator.
struct GpuPlace {
  std::shared_ptr<Communicator> host;
  std::shared_ptr<device::GpuLink> link;
};

/// Tensors on link->device() go over the link, in slices: each rank adds up its slice of what all have, in
/// the order of the interface, and gives it to the others; so the bits are those of every other communicator.
/// A call waits until its sums are there. Timeouts and stops of its own are `options`'.
std::unique_ptr<Communicator> make_gpu_communicator(GpuPlace place, CommunicatorOptions options = {});

/// The links of ranks that are threads of this process, each with its own device: a rank copies what it is
/// sent from where it lies.
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

/// The link of `host`'s ranks, which may be processes on any machines, each with its own GPU. Every rank
/// calls it. Throws device where there is none, or where two ranks have the same, and as a call of `host`
/// does when the ranks do not all come.
std::unique_ptr<device::GpuLink> link_gpus(Communicator& host, int64_t gpu,
                                           const CommunicatorOptions& options = {});

/// The same, linked in the first call that has tensors on the GPUs: most groups of a pool make none.
std::unique_ptr<device::GpuLink> link_gpus_at_first_use(std::shared_ptr<Communicator> host, int64_t gpu,
                                                        CommunicatorOptions options = {});

}  // namespace lockstep::comm
