#include "lockstep/cuda/cuda_side_stream.h"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace lockstep::cuda {
namespace {

class CudaSideStream : public device::SideStream {
 public:
  // Of high priority, so that short work beside backward does not queue behind its kernels.
  explicit CudaSideStream(c10::DeviceIndex gpu)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, gpu)) {}

  Mark mark() const override {
    const c10::cuda::CUDAGuard device(stream_.device_index());
    // Who waits for it leaves its core to others.
    const auto event = std::make_shared<at::cuda::CUDAEvent>(cudaEventDisableTiming | cudaEventBlockingSync);
    event->record(c10::cuda::getCurrentCUDAStream(stream_.device_index()));
    return event;
  }

  void wait(const Mark& mark) const override {
    const c10::cuda::CUDAGuard device(stream_.device_index());
    static_cast<at::cuda::CUDAEvent*>(mark.get())->synchronize();
  }

  void run(const std::function<void()>& work) const override {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    work();
    wait(mark());
  }

 private:
  const c10::cuda::CUDAStream stream_;
};

}  // namespace

std::unique_ptr<device::SideStream> make_cuda_side_stream(int64_t gpu) {
  return std::make_unique<CudaSideStream>(static_cast<c10::DeviceIndex>(gpu));
}

}  // namespace lockstep::cuda
