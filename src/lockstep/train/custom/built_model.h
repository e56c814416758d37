// A network on every rank of a group, with equal weights: what a loop of one's own trains.
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
  int64_t seed = 0;  ///< of the first weights, and of random layers
  std::filesystem::path weights =
      {};  ///< start from this file, safetensors or of torch.save; read by rank 0 alone
  std::vector<std::string> fresh =
      {};  ///< layers that start anew all the same, as a new head does; see nn::load_state
  /// Not auto_. With double_ give the queue .output = {.type = number_type(precision)}: pixels come in 32
  /// bits else; with fp16_mixed the loss is scaled and steps may be skipped: see exchange.
  Precision precision = Precision::single;
  Kernels kernels = Kernels::auto_;
};

/// Recurrent state from one piece of a stream to the next (data::stream_pieces): by a shard's index, what its
/// samples left, [b,...] for each of nn::Instance::hidden_state. One for each walk over the pieces in their
/// order (Shuffle::never), in mini-batches of as many samples as there are slots: a shard then goes on with
/// its own streams, on the same rank.
using StreamStates = std::map<int64_t, std::vector<at::Tensor>>;

/// One rank's replica: weights of its own, that stay equal to the other ranks' because all make the same
/// updates. A handle: copies are of one model. For the thread that runs the task.
class BuiltModel {
 public:
  /// Input [b,C,H,W], or sequences [b,C,T] without padding, to logits [b,classes], or [b,classes,T] where
  /// each time step has a class, in training mode, with its graph. For use inside loss_and_gradients, which
  /// seeds random layers and sets kernels and precision. Input is moved to the model's device and type.
  at::Tensor forward(const at::Tensor& input) const;
  /// The same for input whose dimensions are in another order, as "SSCB", or "CBT". Throws invalid_option
  /// when it is not of the network's channels and size; sequences may have any number of time steps.
  at::Tensor forward(const at::Tensor& input, std::string_view format) const;
  /// The same for a shard's input, [b,C,H,W], or sequences [b,C,T], of which `lengths` time steps count. With
  /// `states`, sequences that continue begin with what is there for the shard, which becomes what they leave,
  /// without a graph; else all begin with zeros. Throws invalid_option for sequences that the network does
  /// not take, and for such that continue what `states` does not have.
  at::Tensor forward(const data::Shard& shard, StreamStates* states = nullptr) const;
  /// Evaluation mode, without a graph.
  at::Tensor predict(const at::Tensor& input) const;
  at::Tensor predict(const data::Shard& shard, StreamStates* states = nullptr) const;

  /// The learnables, in the network's order. They are the model's own tensors: what is written into them is
  /// the model's.
  std::vector<at::Tensor> parameters() const;
  std::vector<std::string> parameter_names() const;
  /// New values for all learnables, copied. Throws invalid_option when number or shapes differ.
  void assign(const std::vector<at::Tensor>& parameters) const;
  /// The learnables of these layers (as in BuildOptions::fresh), or of all others, are not learned any more:
  /// their gradients are zero, and not computed. Batch norms' running statistics still follow the data.
  void freeze(const std::vector<std::string>& layers) const;
  void freeze_all_but(const std::vector<std::string>& layers) const;

  /// What backward's start is multiplied with in the next mini-batch, in fp16-mixed; else 1. `exchange`
  /// changes it, by the rule of PyTorch's GradScaler.
  double loss_scale() const;

  /// Learnables and running statistics by name, as a file holds them; the model's own tensors.
  nn::NamedTensors state() const;
  /// Of all in state(): equal weights, equal hash.
  uint64_t hash() const;
  /// Writes state() to a file that `lockstep predict` and PyTorch read.
  void save(const std::filesystem::path& path) const;

  const nn::NetworkInput& input() const;
  const nn::Instance& instance() const;  ///< for a module's members of its own

  struct Parts;  ///< for this folder
  Parts& parts() const { return *parts_; }
  explicit BuiltModel(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}

 private:
  std::shared_ptr<Parts> parts_;
};

/// What a network is given for these images or sequences: the size of data::format_of, and the dataset's
/// classes.
nn::NetworkInput input_of(const data::Dataset& dataset);

/// For QueueOptions::shared: what the tasks of this worker's process keep of decoded images, together with
/// those of fit. All of it takes no more than half the memory; of a group of several processes each has its
/// part of that. Any thread may use what is returned.
data::SharedImages shared_images(const pool::Worker& worker);

/// Makes the network on every rank and gives all the weights of rank 0. Every rank calls it. Throws
/// invalid_option as lockstep train does for a network with buffers that cannot be kept equal; corrupt_data,
/// not_found for the file.
BuiltModel build(pool::Worker& worker, const nn::Network& network, const nn::NetworkInput& input,
                 const BuildOptions& options = {});

/// The same for the samples of a dataset, after check_same_dataset.
BuiltModel build(pool::Worker& worker, const nn::Network& network, const data::Dataset& dataset,
                 const BuildOptions& options = {});

/// Throws invalid_option on every rank when one has another listing than rank 0: other paths, classes or
/// values of sequences, another number or order of samples. The message names the rank, its host, and the
/// first sample (counted from 0) that differs, with its path on both. Hosts may have the data in different
/// places. Every rank calls it.
void check_same_dataset(comm::Communicator& comm, const data::Dataset& dataset);

}  // namespace lockstep::train
