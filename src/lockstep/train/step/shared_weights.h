// The copy of the weights that all workers of a process read, and that the optimizer updates block by block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/share.h"
#include "lockstep/kernels/gradient_target.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/safetensors.h"

namespace lockstep::train {

/// The position of a parameter in the flat buffer.
struct ParameterSlot {
  std::string name;  ///< its name in the state dict
  std::vector<int64_t> shape;
  int64_t offset = 0;  ///< in elements; 64-byte aligned
  int64_t count = 0;
};

/// Number of elements that one worker reduces and updates at a time. Norms are also computed block by block,
/// so that their bits do not depend on the workers.
inline constexpr int64_t kBlock = 4096;

/// A flat buffer of all parameters that are learned (padding is zero and stays zero), and the network's other
/// state: buffers, and parameters that are frozen (nn::freeze). Threads: the training loop's barriers order
/// all access; see loop.cpp.
class SharedWeights {
 public:
  /// Takes names, values and buffers from `prototype`, whose parameters then alias the flat buffer.
  /// Throws invalid_option for a network without parameters to learn, or with parameters of several types.
  SharedWeights(const nn::Instance& prototype, at::ScalarType type, at::Device device);

  /// Makes the parameters of another instance, and the buffers of its frozen layers, alias the masters. The
  /// instance keeps its own gradients: backward passes of several threads on the same tensors would add their
  /// gradients to each other.
  void alias(const nn::Instance& instance) const;

  const std::vector<ParameterSlot>& slots() const { return slots_; }
  int64_t element_count() const { return flat_.numel(); }  ///< with padding
  int64_t parameter_count() const;                         ///< without
  int64_t block_count() const { return divided_up(element_count(), kBlock); }
  const at::Tensor& flat() const { return flat_; }
  at::ScalarType type() const { return flat_.scalar_type(); }
  at::Device device() const { return flat_.device(); }

  /// The parameters of an instance that have slots, in the order of slots.
  std::vector<at::Tensor> learned(const nn::Instance& instance) const;

  /// Frozen parameters, and buffers of the network (running statistics and counters). Validation uses these
  /// masters, and files store them.
  nn::NamedTensors& buffers() { return buffers_; }
  at::Tensor buffer(const std::string& name) const;

  /// Parameters and buffers in the network's own state-dict order; tensors alias the masters.
  nn::NamedTensors state() const;

  /// The part of each parameter in a flat tensor, as views with the parameters' shapes.
  std::vector<at::Tensor> views(const at::Tensor& flat) const;

  /// Writes one tensor per parameter (undefined ones are zeros) into a flat tensor, or adds them to it.
  /// Leaves out parameters whose gradients are already in `written`.
  void put(const std::vector<at::Tensor>& parts, const at::Tensor& flat, bool add,
           const kernels::GradientTarget* written = nullptr) const;

  /// The elements of a parameter in a flat tensor. put() writes its gradient (undefined: zeros) into them, or
  /// adds it to them.
  Range elements_of(size_t parameter) const {
    return {slots_[parameter].offset, slots_[parameter].offset + slots_[parameter].count};
  }
  void put(size_t parameter, const at::Tensor& value, const at::Tensor& elements, bool add) const;

  /// 64 bits over all parameters and buffers. Equal weights have equal hashes.
  uint64_t hash() const;

 private:
  void put_on_device(const std::vector<at::Tensor>& parts, const at::Tensor& flat, bool add) const;

  at::Tensor flat_;
  std::vector<ParameterSlot> slots_;
  nn::NamedTensors buffers_;
  std::vector<std::string> order_;  // names in state-dict order
};

}  // namespace lockstep::train
