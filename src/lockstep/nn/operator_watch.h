// Finds out whether a user's module computes each sample by itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/nn/sample_operators.h"

namespace at {
struct RecordFunction;
}

namespace torch::nn {
class Module;
}

namespace lockstep::nn {

/// While it lives, it follows a batch of images through the operators that this thread calls. It knows only
/// operators of sample_operators.h. It does not see what a module does with a tensor's memory itself, or with
/// the number of samples.
class OperatorWatch {
 public:
  /// `images`: [b,...], at least two, the input of `module`, which must live longer.
  OperatorWatch(const torch::nn::Module& module, const at::Tensor& images);
  ~OperatorWatch();
  OperatorWatch(const OperatorWatch&) = delete;
  OperatorWatch& operator=(const OperatorWatch&) = delete;

  /// Ends the watch. Empty if each operator between the images and `output`, forward and backward, computes
  /// each sample by itself; otherwise the reason, as the end of a sentence.
  std::string why_samples_mix(const at::Tensor& output);

  /// Tells the watch of this thread, if there is one, that `images` are its images in another order of
  /// memory.
  static void follow(const at::Tensor& images);

 private:
  struct Callbacks;
  struct Weight {
    int64_t count = 0;  // numbers
    bool is_counter = false;
    bool is_used = false;
  };
  struct Arguments;

  void end();
  void begin_call(const at::RecordFunction& call);
  void end_call(const at::RecordFunction& call);
  std::string refusal(const at::RecordFunction& call);
  std::string refusal_of_layer(const Arguments& arguments, const SampleOperator& known);
  Arguments read(const at::RecordFunction& call) const;
  bool is_batch(const at::Tensor& tensor) const;
  void add_batch(const at::Tensor& tensor);

  const int64_t samples_;
  std::map<const void*, Weight> weights_;  // parameters and buffers, by their memory
  std::vector<at::Tensor> batches_;        // kept, so that no other tensor gets their addresses
  std::unordered_set<const c10::TensorImpl*> known_batches_;
  std::string refusal_;       // the first operator that may mix samples
  std::string kernel_;        // the first layer with a kernel of LibTorch; its samples are followed on
  bool gives_batch_ = false;  // the call under way
  bool is_layer_ = false;     // the call under way
  int64_t depth_ = 0;         // of calls within calls
  uint64_t handle_ = 0;
  bool watches_ = true;
  OperatorWatch* const outer_;
};

}  // namespace lockstep::nn
