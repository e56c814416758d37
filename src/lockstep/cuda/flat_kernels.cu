#include "lockstep/cuda/flat_kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace lockstep::cuda {
// Not anonymous: nvcc would name that after the folder of this file, and two builds would differ.
namespace flat {

constexpr int kThreads = 256;
constexpr int64_t kMostThreadBlocks = 4096;
constexpr int kLanes = 8;

template <class T, class Element>
__global__ void update(Element element, const T* gradient, T* weight, T* first, T* second, int64_t count) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += int64_t{blockDim.x} * gridDim.x) {
    T no_first{}, no_second{};
    element(gradient[i], weight[i], first == nullptr ? no_first : first[i],
            second == nullptr ? no_second : second[i]);
  }
}

// Eight neighbouring threads make one block: a warp reads 32 neighbouring values of four blocks at a time.
template <class T>
__global__ void sums_of_squares(const T* values, int64_t count, int64_t block, double* sums,
                                int64_t block_count) {
  const int64_t thread = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  const int64_t index = thread / kLanes;
  const int lane = static_cast<int>(thread % kLanes);
  double sum = 0;
  if (index < block_count) {
    const int64_t begin = index * block;
    const int64_t end = begin + block < count ? begin + block : count;
    for (int64_t i = begin + lane; i < end; i += kLanes)
      sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  // ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))
  for (int distance = 1; distance < kLanes; distance *= 2)
    sum += __shfl_down_sync(0xffffffff, sum, distance, kLanes);
  if (lane == 0 && index < block_count) sums[index] = sum;
}

template <class T>
__device__ T product(T value, float factor) {
  return static_cast<T>(static_cast<float>(value) * factor);
}
template <>
__device__ double product<double>(double value, float factor) {
  return value * factor;
}

template <class T>
__global__ void drop(const T* from, T* to, Dropping dropping) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < dropping.count;
       i += int64_t{blockDim.x} * gridDim.x) {
    const int64_t place = i % dropping.sample;
    const uint64_t word = device::random_word(static_cast<uint64_t>(dropping.seeds[i / dropping.sample]),
                                              static_cast<uint64_t>(place / 4));
    const auto bits = static_cast<uint32_t>(word >> (16 * (place % 4))) & 0xFFFF;
    to[i] = product(from[i], bits < dropping.kept.levels ? dropping.kept.scale : 0.0F);
  }
}

int64_t thread_blocks(int64_t threads) { return (threads + kThreads - 1) / kThreads; }

/// For a kernel whose threads go on to further elements.
unsigned few_thread_blocks(int64_t elements) {
  const int64_t wanted = thread_blocks(elements);
  return static_cast<unsigned>(wanted < kMostThreadBlocks ? wanted : kMostThreadBlocks);
}

}  // namespace flat

using namespace flat;

template <class T>
void launch_update(const device::UpdateRule& rule, const T* gradient, T* weight, T* first, T* second,
                   int64_t count, cudaStream_t stream) {
  device::visit_update<T>(rule, [&](auto element) {
    update<T>
        <<<few_thread_blocks(count), kThreads, 0, stream>>>(element, gradient, weight, first, second, count);
  });
}

template <class T>
void launch_sums_of_squares(const T* values, int64_t count, int64_t block, double* sums,
                            cudaStream_t stream) {
  const int64_t block_count = (count + block - 1) / block;
  sums_of_squares<T><<<static_cast<unsigned>(thread_blocks(block_count * kLanes)), kThreads, 0, stream>>>(
      values, count, block, sums, block_count);
}

template <class T>
void launch_drop(const void* from, void* to, const Dropping& dropping, cudaStream_t stream) {
  drop<T><<<few_thread_blocks(dropping.count), kThreads, 0, stream>>>(static_cast<const T*>(from),
                                                                      static_cast<T*>(to), dropping);
}

void launch_drop(NumberKind kind, const void* from, void* to, const Dropping& dropping, cudaStream_t stream) {
  switch (kind) {
    case NumberKind::float32:
      return launch_drop<float>(from, to, dropping, stream);
    case NumberKind::float64:
      return launch_drop<double>(from, to, dropping, stream);
    case NumberKind::float16:
      return launch_drop<__half>(from, to, dropping, stream);
    case NumberKind::bfloat16:
      return launch_drop<__nv_bfloat16>(from, to, dropping, stream);
  }
}

template void launch_update<float>(const device::UpdateRule&, const float*, float*, float*, float*, int64_t,
                                   cudaStream_t);
template void launch_update<double>(const device::UpdateRule&, const double*, double*, double*, double*,
                                    int64_t, cudaStream_t);
template void launch_sums_of_squares<float>(const float*, int64_t, int64_t, double*, cudaStream_t);
template void launch_sums_of_squares<double>(const double*, int64_t, int64_t, double*, cudaStream_t);

}  // namespace lockstep::cuda
