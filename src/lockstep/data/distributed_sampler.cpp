#include "lockstep/data/distributed_sampler.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "lockstep/base/share.h"

namespace lockstep::data {

std::vector<int64_t> distributed_samples(int64_t count, int64_t replicas, std::optional<int64_t> seed) {
  const at::Tensor drawn =
      seed ? at::randperm(count, at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(*seed)),
                          at::kLong)
           : at::arange(count, at::kLong);
  const int64_t* numbers = drawn.const_data_ptr<int64_t>();
  std::vector<int64_t> samples;
  const int64_t whole = count == 0 ? 0 : divided_up(count, replicas) * replicas;
  for (int64_t i = 0; i < whole; ++i) samples.push_back(numbers[i % count]);
  return samples;
}

}  // namespace lockstep::data
