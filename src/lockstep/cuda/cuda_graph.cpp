#include "lockstep/cuda/cuda_graph.h"

#include <mutex>
#include <optional>
#include <vector>

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
    // Waiting for the device would break the recording of another training of this process.
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    const c10::cuda::CUDAGuard device(stream_.device_index());
    C10_CUDA_CHECK(cudaDeviceSynchronize());
    // The graph's memory is in addition to the memory of the rehearsals.
    c10::cuda::CUDACachingAllocator::emptyCache();
    const c10::cuda::CUDAStreamGuard guard(stream_);
    const c10::MempoolId_t pool = at::cuda::graph_pool_handle();
    graph_.emplace();
    bool ending = false;
    try {
      // Other threads pin memory meanwhile, which the mode "global" would treat as an error.
      graph_->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
      work();
      ending = true;
      graph_->capture_end();
    } catch (...) {
      give_up(pool, /*has_pool=*/!ending);
      throw;
    }
  }

  void side_by_side(int64_t count, const std::function<void(int64_t)>& branch) override {
    if (count == 1) return branch(0);
    while (static_cast<int64_t>(branches_.size()) < count)
      branches_.push_back(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, stream_.device_index()));
    for (int64_t i = 0; i < count; ++i) {
      const c10::cuda::CUDAStream& stream = branches_[static_cast<size_t>(i)];
      follow(stream, stream_);
      const c10::cuda::CUDAStreamGuard guard(stream);
      branch(i);
    }
    for (int64_t i = 0; i < count; ++i) follow(stream_, branches_[static_cast<size_t>(i)]);
  }

  void replay() override {
    const c10::cuda::CUDAGuard device(stream_.device_index());
    graph_->replay();
  }

 private:
  // Work that is sent to `later` from now on waits for earlier work of `earlier`.
  static void follow(const c10::cuda::CUDAStream& later, const c10::cuda::CUDAStream& earlier) {
    at::cuda::CUDAEvent event;
    event.record(earlier);
    event.block(later);
  }

  // Ends a recording that failed: restores stream, allocator and generator. LibTorch's own end stops at the
  // first error. has_pool: the graph does not know yet that it must release its pool.
  void give_up(c10::MempoolId_t pool, bool has_pool) {
    cudaGraph_t broken = nullptr;
    if (cudaStreamEndCapture(stream_.stream(), &broken) == cudaSuccess && broken != nullptr)
      cudaGraphDestroy(broken);
    cudaGetLastError();  // an error of the recording, not of a later call
    graph_.reset();
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(stream_.device_index(), pool);
      if (has_pool) c10::cuda::CUDACachingAllocator::releasePool(stream_.device_index(), pool);
    } catch (const c10::Error&) {
      // LibTorch had not come this far, or had done it itself.
    }
    at::Generator generator = at::cuda::detail::getDefaultCUDAGenerator(stream_.device_index());
    const std::lock_guard lock(generator.mutex());
    generator.graphsafe_set_state(at::cuda::detail::createCUDAGenerator(stream_.device_index()));
  }

  const c10::cuda::CUDAStream stream_;
  std::vector<c10::cuda::CUDAStream> branches_;
  std::optional<at::cuda::CUDAGraph> graph_;
};

}  // namespace

std::unique_ptr<device::StepGraph> make_cuda_graph(int64_t gpu) {
  return std::make_unique<CudaGraph>(static_cast<c10::DeviceIndex>(gpu));
}

}  // namespace lockstep::cuda
