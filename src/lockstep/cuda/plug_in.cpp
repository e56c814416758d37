// The CUDA plug-in: implements device/gpu.h with LibTorch's CUDA half and our kernels.
#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include "lockstep/cuda/cuda_graph.h"
#include "lockstep/cuda/cuda_side_stream.h"
#include "lockstep/cuda/flat_kernels.h"
#include "lockstep/cuda/nccl_link.h"
#include "lockstep/cuda/nvjpeg_decoder.h"
#include "lockstep/device/gpu.h"

namespace lockstep::cuda {
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string capability_of(const cudaDeviceProp& properties) {
  return std::to_string(properties.major) + "." + std::to_string(properties.minor);
}
std::string kind_of(const cudaDeviceProp& properties) {
  return std::string(properties.name) + ", capability " + capability_of(properties);
}

cudaDeviceProp properties_of(int64_t index) {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, static_cast<int>(index)));
  return properties;
}

template <class T>
T* pointer(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<T>() : nullptr;
}

template <class Work>
void with_element_type(const at::Tensor& tensor, Work&& work) {
  if (tensor.scalar_type() == at::kDouble) {
    work(double{});
  } else {
    work(float{});
  }
}

class Kernels : public device::GpuKernels {
 public:
  void update(const device::UpdateRule& rule, const at::Tensor& gradient, const at::Tensor& weight,
              const at::Tensor& first, const at::Tensor& second) const override {
    const c10::cuda::CUDAGuard guard(weight.device());
    with_element_type(weight, [&](auto zero) {
      using T = decltype(zero);
      launch_update<T>(rule, gradient.const_data_ptr<T>(), pointer<T>(weight), pointer<T>(first),
                       pointer<T>(second), weight.numel(), c10::cuda::getCurrentCUDAStream());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  at::Tensor sums_of_squares(const at::Tensor& values, int64_t block) const override {
    const c10::cuda::CUDAGuard guard(values.device());
    at::Tensor sums = at::empty({(values.numel() + block - 1) / block}, values.options().dtype(at::kDouble));
    with_element_type(values, [&](auto zero) {
      using T = decltype(zero);
      launch_sums_of_squares<T>(values.const_data_ptr<T>(), values.numel(), block, sums.data_ptr<double>(),
                                c10::cuda::getCurrentCUDAStream());
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return sums;
  }

  void drop(const at::Tensor& from, const at::Tensor& to, const at::Tensor& seeds,
            const device::Kept& kept) const override {
    if (from.numel() == 0) return;
    const c10::cuda::CUDAGuard guard(from.device());
    const Dropping dropping{.seeds = seeds.const_data_ptr<int64_t>(),
                            .sample = from.numel() / seeds.numel(),
                            .count = from.numel(),
                            .kept = kept};
    const auto launch = [&](auto kind) {
      launch_drop(kind, from.const_data_ptr(), to.mutable_data_ptr(), dropping,
                  c10::cuda::getCurrentCUDAStream());
    };
    switch (from.scalar_type()) {
      case at::kFloat:
        launch(NumberKind::float32);
        break;
      case at::kDouble:
        launch(NumberKind::float64);
        break;
      case at::kHalf:
        launch(NumberKind::float16);
        break;
      case at::kBFloat16:
        launch(NumberKind::bfloat16);
        break;
      default:
        throw std::runtime_error("dropout has no kernel for this type");
    }
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
};

class Library : public device::GpuLibrary {
 public:
  std::vector<device::Gpu> list() const override {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaErrorNoDevice) return {};
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
    // A program that asked LibTorch about CUDA before the plug-in was opened keeps the answer "none" forever.
    if (count > 0 && !at::globalContext().hasCUDA())
      throw std::runtime_error("LibTorch was asked for CUDA before the plug-in was opened");
    std::vector<device::Gpu> gpus;
    for (int index = 0; index < count; ++index) {
      const cudaDeviceProp properties = properties_of(index);
      gpus.push_back({index, properties.name, static_cast<int64_t>(properties.totalGlobalMem),
                      capability_of(properties)});
    }
    return gpus;
  }

  at::Device device(int64_t index) const override {
    return {at::kCUDA, static_cast<c10::DeviceIndex>(index)};
  }

  std::string address(int64_t index) const override {
    std::array<char, 32> text{};
    C10_CUDA_CHECK(
        cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), static_cast<int>(index)));
    return text.data();
  }

  std::string fingerprint(int64_t index) const override {
    const cudaDeviceProp properties = properties_of(index);
    int runtime = 0;
    C10_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    return kind_of(properties) + ", cuda " + version_text(runtime) + ", cudnn " +
           std::to_string(at::detail::getCUDAHooks().versionRuntimeCuDNN());
  }

  void make_repeatable() const override {
    static std::once_flag once;  // several threads may ask at the same time, and they share the environment
    std::call_once(once, hold_to_repeatable_kernels);
  }
  static void hold_to_repeatable_kernels() {
    // cuBLAS repeats its bits only with a workspace of a fixed size; it reads the variable when its first
    // handle is made.
    ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
    at::Context& context = at::globalContext();
    context.setDeterministicAlgorithms(true, /*warn_only=*/false);
    context.setDeterministicFillUninitializedMemory(false);
    context.setDeterministicCuDNN(true);
    context.setBenchmarkCuDNN(false);
    context.setAllowTF32CuDNN(false);
    context.setAllowTF32CuBLAS(false);
  }

  device::GpuMemory memory(int64_t index) const override {
    const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(index));
    size_t free = 0, total = 0;
    C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    device::GpuMemory memory{.total = static_cast<int64_t>(total), .free = static_cast<int64_t>(free)};
    if (!c10::cuda::CUDACachingAllocator::get()->initialized()) return memory;
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(index));
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    memory.used = stats.allocated_bytes[all].current;
    memory.most_used = stats.allocated_bytes[all].peak;
    memory.most_held = stats.reserved_bytes[all].peak;
    return memory;
  }

  const device::GpuKernels& kernels() const override { return kernels_; }

  std::unique_ptr<device::StepGraph> make_step_graph(int64_t index) const override {
    return make_cuda_graph(index);
  }

  std::unique_ptr<device::SideStream> make_side_stream(int64_t index) const override {
    return make_cuda_side_stream(index);
  }

  const device::JpegDecoder& jpeg_decoder(const std::vector<int64_t>& gpus) const override {
    return nvjpeg_decoder(gpus, kind_of(properties_of(gpus.front())));
  }

  std::string link_token() const override { return nccl_token(); }
  std::unique_ptr<device::GpuLink> connect(const device::GpuLinkPlace& place) const override {
    return connect_nccl(place);
  }

 private:
  Kernels kernels_;
};

}  // namespace
}  // namespace lockstep::cuda

extern "C" __attribute__((visibility("default"))) const lockstep::device::GpuLibrary*
lockstep_gpu_library_7() {
  static const lockstep::cuda::Library library;
  return &library;
}
