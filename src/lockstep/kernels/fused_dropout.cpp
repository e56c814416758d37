#include "lockstep/kernels/fused_dropout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/base/share.h"
#include "lockstep/kernels/first_derivative.h"
#include "lockstep/kernels/sample_seeds.h"

namespace lockstep::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kChunk = 1024;  // numbers for which random bits are made at once
constexpr int64_t kPerWord = 4;   // of 16 bits each
constexpr double kLevels = 65536;

// SplitMix64 (Steele, Lea, Flood 2014), by the position in the sequence.
uint64_t random_word(uint64_t seed, uint64_t place) {
  uint64_t value = seed + (place + 1) * 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

using Factors = std::array<float, kChunk>;

/// What is kept: numbers whose 16 random bits are below `levels`, times `scale`.
struct Kept {
  uint32_t levels;
  float scale;

  explicit Kept(double probability)
      : levels(static_cast<uint32_t>(std::lround((1 - probability) * kLevels))),
        scale(levels == 0 ? 0.0F : static_cast<float>(kLevels / levels)) {}
};

// `count` factors or some more, so that the compiler's loop over vectors has no remainder. A sample may have
// few numbers.
void make_factors(uint64_t seed, int64_t first_word, int64_t count, const Kept& kept, Factors& factors) {
  constexpr int64_t kVectors = 64;
  const int64_t made = divided_up(count, kVectors) * kVectors;
  std::array<uint16_t, kChunk> bits;
  for (int64_t i = 0; i < made / kPerWord; ++i) {
    const uint64_t word = random_word(seed, static_cast<uint64_t>(first_word + i));
    std::memcpy(bits.data() + i * kPerWord, &word, sizeof(word));
  }
  for (size_t i = 0; i < static_cast<size_t>(made); ++i)
    factors[i] = bits[i] < kept.levels ? kept.scale : 0.0F;
}

template <class T>
void drop(const T* from, T* to, int64_t count, uint64_t seed, double probability) {
  const Kept kept(probability);
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

at::Tensor dropped(const at::Tensor& input, const LayerSeeds& seeds, double probability) {
  const at::Tensor output = at::empty_like(input);
  const int64_t samples = input.dim() == 0 ? 1 : input.size(0);
  const int64_t count = samples == 0 ? 0 : input.numel() / samples;
  const auto run = [&](auto type) {
    using T = decltype(type);
    for (int64_t i = 0; i < samples; ++i)
      drop(input.const_data_ptr<T>() + i * count, output.mutable_data_ptr<T>() + i * count, count,
           seeds.of(i), probability);
  };
  input.scalar_type() == at::kFloat ? run(float{}) : run(at::BFloat16{});
  return output;
}

class Dropout : public torch::autograd::Function<Dropout> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const LayerSeeds& seeds,
                            double probability) {
    context->saved_data["seed"] = static_cast<int64_t>(seeds.seed);
    context->saved_data["first"] = seeds.first;
    context->saved_data["probability"] = probability;
    context->saved_data["format"] = static_cast<int64_t>(format_of(input));
    return dropped(input, seeds, probability);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    check_first_derivative();
    const auto format = static_cast<at::MemoryFormat>(context->saved_data["format"].toInt());
    const LayerSeeds seeds{static_cast<uint64_t>(context->saved_data["seed"].toInt()),
                           context->saved_data["first"].toInt()};
    return {dropped(gradients[0].contiguous(format), seeds, context->saved_data["probability"].toDouble()),
            at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool fits_fused_dropout(const at::Tensor& input) {
  return input.is_cpu() && (input.scalar_type() == at::kFloat || input.scalar_type() == at::kBFloat16) &&
         input.is_contiguous(format_of(input));
}

at::Tensor fused_dropout(const at::Tensor& input, double probability) {
  return Dropout::apply(input, SampleSeeds::next_layer(), probability);
}

}  // namespace lockstep::kernels
