#include "lockstep/kernels/fused_dropout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/base/share.h"
#include "lockstep/device/dropout_rule.h"
#include "lockstep/device/gpu.h"
#include "lockstep/kernels/first_derivative.h"
#include "lockstep/kernels/sample_seeds.h"

namespace lockstep::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kChunk = 1024;  // numbers for which random bits are made at once
constexpr int64_t kPerWord = 4;   // of 16 bits each
constexpr double kLevels = 65536;

using Factors = std::array<float, kChunk>;

using device::Kept;

Kept kept_with(double probability) {
  const auto levels = static_cast<uint32_t>(std::lround((1 - probability) * kLevels));
  return {levels, levels == 0 ? 0.0F : static_cast<float>(kLevels / levels)};
}

// `count` factors or some more, so that the compiler's loop over vectors has no remainder. A sample may have
// few numbers.
void make_factors(uint64_t seed, int64_t first_word, int64_t count, const Kept& kept, Factors& factors) {
  constexpr int64_t kVectors = 64;
  const int64_t made = divided_up(count, kVectors) * kVectors;
  std::array<uint16_t, kChunk> bits;
  for (int64_t i = 0; i < made / kPerWord; ++i) {
    const uint64_t word = device::random_word(seed, static_cast<uint64_t>(first_word + i));
    std::memcpy(bits.data() + i * kPerWord, &word, sizeof(word));
  }
  for (size_t i = 0; i < static_cast<size_t>(made); ++i)
    factors[i] = bits[i] < kept.levels ? kept.scale : 0.0F;
}

template <class T>
void drop(const T* from, T* to, int64_t count, uint64_t seed, const Kept& kept) {
  Factors factors;
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    make_factors(seed, begin / kPerWord, std::min(kChunk, count - begin), kept, factors);
    if (begin + kChunk <= count) {
#pragma GCC ivdep
      for (int64_t i = 0; i < kChunk; ++i)
        to[begin + i] = static_cast<T>(static_cast<float>(from[begin + i]) * factors[static_cast<size_t>(i)]);
    } else {
      for (int64_t i = 0; i < count - begin; ++i)
        to[begin + i] = static_cast<T>(static_cast<float>(from[begin + i]) * factors[static_cast<size_t>(i)]);
    }
  }
}

at::MemoryFormat format_of(const at::Tensor& tensor) {
  return tensor.dim() == 4 && !tensor.is_contiguous() && tensor.is_contiguous(at::MemoryFormat::ChannelsLast)
             ? at::MemoryFormat::ChannelsLast
             : at::MemoryFormat::Contiguous;
}

at::Tensor dropped(const at::Tensor& input, const at::Tensor& seeds, double probability) {
  const at::Tensor output = at::empty_like(input);
  const Kept kept = kept_with(probability);
  if (!input.is_cpu()) {
    device::gpu_library().kernels().drop(input, output, seeds, kept);
    return output;
  }
  const int64_t samples = seeds.numel(), count = samples == 0 ? 0 : input.numel() / samples;
  const auto* seed = seeds.const_data_ptr<int64_t>();
  const auto run = [&](auto type) {
    using T = decltype(type);
    for (int64_t i = 0; i < samples; ++i)
      drop(input.const_data_ptr<T>() + i * count, output.mutable_data_ptr<T>() + i * count, count,
           static_cast<uint64_t>(seed[i]), kept);
  };
  input.scalar_type() == at::kFloat ? run(float{}) : run(at::BFloat16{});
  return output;
}

class Dropout : public torch::autograd::Function<Dropout> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& seeds,
                            double probability) {
    context->saved_data["seeds"] = seeds;
    context->saved_data["probability"] = probability;
    context->saved_data["format"] = static_cast<int64_t>(format_of(input));
    return dropped(input, seeds, probability);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    check_first_derivative();
    const auto format = static_cast<at::MemoryFormat>(context->saved_data["format"].toInt());
    return {dropped(gradients[0].contiguous(format), context->saved_data["seeds"].toTensor(),
                    context->saved_data["probability"].toDouble()),
            at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool fits_fused_dropout(const at::Tensor& input) {
  const at::ScalarType type = input.scalar_type();
  const bool known = input.is_cpu() ? type == at::kFloat || type == at::kBFloat16
                                    : input.is_cuda() && at::isFloatingType(type);
  return known && input.is_contiguous(format_of(input));
}

at::Tensor fused_dropout(const at::Tensor& input, double probability) {
  const int64_t samples = input.dim() == 0 ? 1 : input.size(0);
  return Dropout::apply(input, SampleSeeds::next_layer(samples, input.device()), probability);
}

}  // namespace lockstep::kernels
