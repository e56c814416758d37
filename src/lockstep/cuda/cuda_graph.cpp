#include "lockstep/cuda/cuda_graph.h"

#include <mutex>
#include <optional>

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace lockstep::cuda {
namespace {

class CudaGraph : public device::StepGraph {
 public:
  // CUDA records no work of the default stream.
  explicit CudaGraph(c10::DeviceIndex gpu)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, gpu)) {}

  void rehearse(const Work& work) override {
    const c10::cuda::CUDAGuard device(stream_.device_index());
    const c10::cuda::CUDAStream outer = c10::cuda::getCurrentCUDAStream();
    follow(stream_, outer);
    {
      const c10::cuda::CUDAStreamGuard guard(stream_);
      work();
    }
    follow(outer, stream_);
  }

  void record(const Work& work) override {
    const c10::cuda::CUDAGuard device(stream_.device_index());
    C10_CUDA_CHECK(cudaDeviceSynchronize());
    c10::cuda::CUDACachingAllocator::emptyCache();  // the graph's memory comes beside what rehearsals left
    const c10::cuda::CUDAStreamGuard guard(stream_);
    const c10::MempoolId_t pool = at::cuda::graph_pool_handle();
    graph_.emplace();
    bool ending = false;
    try {
      // Other threads pin memory meanwhile, which the mode "global" would take for a mistake.
      graph_->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
      work();
      ending = true;
      graph_->capture_end();
    } catch (...) {
      give_up(pool, /*has_pool=*/!ending);
      throw;
    }
  }

  void replay() override {
    const c10::cuda::CUDAGuard device(stream_.device_index());
    graph_->replay();
  }

 private:
  // What is told to `later` from now on waits for what `earlier` was told.
  static void follow(const c10::cuda::CUDAStream& later, const c10::cuda::CUDAStream& earlier) {
    at::cuda::CUDAEvent event;
    event.record(earlier);
    event.block(later);
  }

  // Ends a recording that failed: stream, allocator and generator are as without it. LibTorch's own end stops
  // at the first error. has_pool: the graph does not know yet that it must give its pool back.
  void give_up(c10::MempoolId_t pool, bool has_pool) {
    cudaGraph_t broken = nullptr;
    if (cudaStreamEndCapture(stream_.stream(), &broken) == cudaSuccess && broken != nullptr)
      cudaGraphDestroy(broken);
    cudaGetLastError();  // an error of the recording, not of what comes next
    graph_.reset();
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(stream_.device_index(), pool);
      if (has_pool) c10::cuda::CUDACachingAllocator::releasePool(stream_.device_index(), pool);
    } catch (const c10::Error&) {
      // LibTorch had not come so far, or had done it itself.
    }
    at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(stream_.device_index());
    const std::lock_guard lock(generator.mutex());
    generator.graphsafe_set_state(at::cuda::detail::createCUDAGenerator(stream_.device_index()));
  }

  const c10::cuda::CUDAStream stream_;
  std::optional<at::cuda::CUDAGraph> graph_;
};

}  // namespace

std::unique_ptr<device::StepGraph> make_cuda_graph(int64_t gpu) {
  return std::make_unique<CudaGraph>(static_cast<c10::DeviceIndex>(gpu));
}

}  // namespace lockstep::cuda
