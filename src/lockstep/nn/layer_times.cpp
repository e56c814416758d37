#include "lockstep/nn/layer_times.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/kernels/direct_kernels.h"

namespace lockstep::nn {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPasses = 3;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

at::Tensor made_up_samples(const NetworkInput& input, int64_t samples) {
  if (input.time_steps > 0) return at::randn({samples, input.channels, input.time_steps});
  return at::randn({samples, input.channels, input.height, input.width});
}

// One pass forward and backward. A layer's backward begins when the gradient of its output is there.
class Pass {
 public:
  Pass(const Instance& instance, std::vector<LayerTime>& times) : instance_(instance), times_(times) {
    instance_.observe([this](size_t layer, const at::Tensor& output) { take(layer, output); });
  }
  ~Pass() { instance_.observe({}); }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  void run(const at::Tensor& samples) {
    last_ = Clock::now();
    const at::Tensor loss = instance_.forward(samples).sum();
    before_ = times_.size();
    last_ = Clock::now();
    loss.backward();
    end_backward(times_.size());
  }

 private:
  void take(size_t layer, const at::Tensor& output) {
    const Clock::time_point now = Clock::now();
    times_[layer].forward_seconds = seconds_between(last_, now);
    // Two layers computed in one pass have the same output.
    if (output.requires_grad() && known_.insert(output.unsafeGetTensorImpl()).second) {
      outputs_.emplace_back(output.getIntrusivePtr());
      output.register_hook([this, layer](const at::Tensor&) { end_backward(layer); });
    }
    last_ = Clock::now();
  }

  void end_backward(size_t next) {
    const Clock::time_point now = Clock::now();
    if (before_ < times_.size()) times_[before_].backward_seconds = seconds_between(last_, now);
    before_ = next;
    last_ = now;
  }

  const Instance& instance_;
  std::vector<LayerTime>& times_;
  std::set<const void*> known_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> outputs_;  // so that no address is used again
  Clock::time_point last_;
  size_t before_ = 0;  // the layer whose backward is being computed; as many as there are layers: none
};

}  // namespace

std::vector<LayerTime> layer_times(const Network& network, const NetworkInput& input, int64_t samples) {
  const Instance instance = network.make(input);
  if (!instance.observe)
    throw Error(ErrorCode::invalid_option,
                "network \"" + network.name() + "\" is a C++ module, so its layers cannot be measured");
  const kernels::DirectKernels kernels(true);
  const at::Tensor images = made_up_samples(input, samples);
  constexpr double kMost = std::numeric_limits<double>::infinity();
  std::vector<LayerTime> best(instance.layers.size(), {kMost, kMost});
  for (int pass = 0; pass < kPasses; ++pass) {
    std::vector<LayerTime> times(best.size());
    Pass(instance, times).run(images);
    instance.module->zero_grad();
    for (size_t i = 0; i < best.size(); ++i) {
      best[i].forward_seconds = std::min(best[i].forward_seconds, times[i].forward_seconds);
      best[i].backward_seconds = std::min(best[i].backward_seconds, times[i].backward_seconds);
    }
  }
  return best;
}

}  // namespace lockstep::nn
