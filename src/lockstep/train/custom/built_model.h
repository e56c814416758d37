// A network for custom loops, with equal weights on every rank of a group.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/data/datastore.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/safetensors.h"
#include "lockstep/pool/worker.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/options/options.h"

namespace lockstep::train {

struct BuildOptions {
  int64_t seed = 0;                     ///< of the first weights, and of random layers
  std::filesystem::path weights = {};   ///< start from this file, safetensors or torch.save; rank 0 reads it
  std::vector<std::string> fresh = {};  ///< layers that do not start from the file; see nn::load_state
  /// Not auto_. With double_, give the queue .output = {.type = number_type(precision)}; otherwise pixels
  /// have 32 bits. With fp16_mixed the loss is scaled, and steps may be skipped: see exchange.
  Precision precision = Precision::single;
  Kernels kernels = Kernels::auto_;
};

/// Recurrent state from one piece of a stream to the next (data::stream_pieces): for each shard index the
/// state after its samples, [b,...] for each of nn::Instance::hidden_state. Use one for each pass over the
/// pieces in their order (Shuffle::never), with mini-batches of as many samples as there are slots. A shard
/// then continues its own streams, on the same rank.
using StreamStates = std::map<int64_t, std::vector<at::Tensor>>;

/// The model on one rank. Its weights stay equal to those of the other ranks because all ranks make the same
/// updates. It is a handle: copies share one model. Only the thread that runs the task may use it.
class BuiltModel {
 public:
  /// The logits [b,classes] of input [b,C,H,W], or of sequences [b,C,T] without padding ([b,classes,T] if
  /// each time step has a class), in training mode, with a graph. For use inside loss_and_gradients, which
  /// seeds random layers and sets kernels and precision. The input is moved to the model's device and type.
  at::Tensor forward(const at::Tensor& input) const;
  /// The same for input whose dimensions are in another order, for example "SSCB" or "CBT". Throws
  /// invalid_option if channels or size are not the network's; sequences may have any number of time steps.
  at::Tensor forward(const at::Tensor& input, std::string_view format) const;
  /// The same for a shard's input, [b,C,H,W], or sequences [b,C,T], of which `lengths` time steps count. With
  /// `states`, sequences that continue begin with the shard's state, which is then replaced by their last
  /// state, without a graph; otherwise all begin with zeros. Throws invalid_option if the network accepts no
  /// sequences, and for sequences that continue although `states` has no state of the shard.
  at::Tensor forward(const data::Shard& shard, StreamStates* states = nullptr) const;
  /// Evaluation mode, without a graph.
  at::Tensor predict(const at::Tensor& input) const;
  at::Tensor predict(const data::Shard& shard, StreamStates* states = nullptr) const;

  /// The learnables, in the network's order. They are the model's own tensors: writing into them changes the
  /// model.
  std::vector<at::Tensor> parameters() const;
  std::vector<std::string> parameter_names() const;
  /// Copies new values into all learnables. Throws invalid_option if their number or shapes differ.
  void assign(const std::vector<at::Tensor>& parameters) const;
  /// Freezes the learnables of these layers (named as in BuildOptions::fresh), or of all others: their
  /// gradients are zero and are not computed. Batch norms' running statistics still follow the data.
  void freeze(const std::vector<std::string>& layers) const;
  void freeze_all_but(const std::vector<std::string>& layers) const;

  /// The factor with which backward starts in the next mini-batch; 1 unless the precision is fp16-mixed.
  /// `exchange` changes it, by the rule of PyTorch's GradScaler.
  double loss_scale() const;

  /// Learnables and running statistics by name, as in a file of weights. They are the model's own tensors:
  /// writing into them changes the model.
  nn::NamedTensors state() const;
  /// Over state(). Equal weights have equal hashes.
  uint64_t hash() const;
  /// Writes state() to a file that `lockstep predict` and PyTorch read.
  void save(const std::filesystem::path& path) const;

  const nn::NetworkInput& input() const;
  const nn::Instance& instance() const;  ///< for access to the module's own members

  struct Parts;  ///< for this folder
  Parts& parts() const { return *parts_; }
  explicit BuiltModel(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}

 private:
  std::shared_ptr<Parts> parts_;
};

/// The network input for these images or sequences: the size from data::format_of, and the dataset's classes.
nn::NetworkInput input_of(const data::Dataset& dataset);

/// For QueueOptions::shared: the decoded images that the tasks of this worker's process keep, together with
/// those of fit. They take at most half of the memory; each process of a group has its part of that. Any
/// thread may use the result.
data::SharedImages shared_images(const pool::Worker& worker);

/// Makes the network on every rank with the weights of rank 0. Every rank calls it. Throws invalid_option, as
/// `lockstep train` does, for a network with buffers that cannot be kept equal; corrupt_data and not_found
/// for the file.
BuiltModel build(pool::Worker& worker, const nn::Network& network, const nn::NetworkInput& input,
                 const BuildOptions& options = {});

/// The same for the samples of a dataset, after check_same_dataset.
BuiltModel build(pool::Worker& worker, const nn::Network& network, const data::Dataset& dataset,
                 const BuildOptions& options = {});

/// Throws invalid_option on every rank if one has another listing than rank 0: other paths, classes or values
/// of sequences, another number or order of samples. The message names the rank, its host, and the first
/// sample (counted from 0) that differs, with both paths. Hosts may have the data in different folders. Every
/// rank calls it.
void check_same_dataset(comm::Communicator& comm, const data::Dataset& dataset);

}  // namespace lockstep::train
