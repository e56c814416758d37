// Recurrent state that continues from one mini-batch to the next. It belongs to a stream, which is one
// position (slot) of the mini-batch. A slot is always in the same shard, which always has the same worker, so
// no worker needs another one's state, and the bits are the same for any number of workers.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/safetensors.h"
#include "lockstep/train/options/plan.h"

namespace lockstep::train {

/// `left`, [b,...] for each part, is the state after the last mini-batch. Returns the state with which the
/// shard's samples begin: zeros for a sequence that begins.
std::vector<at::Tensor> rows_to_begin_with(const std::vector<at::Tensor>& left, const data::Shard& shard);

/// The state before the step under way, and what its shards leave for the next step. Workers may call rows()
/// and put() at once for different slots.
class HiddenStates {
 public:
  /// Keeps nothing.
  HiddenStates() = default;
  /// All slots begin with zeros. `like` gives type and device.
  HiddenStates(std::vector<nn::HiddenState> parts, int64_t slots, const at::Tensor& like);

  /// The state with which a shard begins: [b,...] for each part, zeros for a sequence that begins. Empty if
  /// there is no hidden state. The slot of a sample is its place in the mini-batch.
  std::vector<at::Tensor> rows(const data::Shard& shard) const;
  void put(const data::Shard& shard, const std::vector<at::Tensor>& rows);
  /// The step is made: what was put becomes the state. Called by one thread while no other is in rows() or
  /// put().
  void commit() { now_.swap(next_); }

  /// Every rank, between steps: exchanges the state, so that all ranks have all slots. `slots` are those
  /// whose shards this rank computes. Called by one thread while others may be in rows() and put() for these
  /// slots.
  void collect(comm::Communicator& comm, Range slots);

  /// "carried.lstm.h" [slots,layers,hidden] and so on, for checkpoints: the state before the step under way.
  /// The tensors share this object's memory.
  nn::NamedTensors state() const;

 private:
  std::vector<nn::HiddenState> parts_;
  std::vector<at::Tensor> now_;
  std::vector<at::Tensor> next_;
};

/// For a run with this plan, all zeros. Keeps nothing unless the plan cuts sequences into pieces.
HiddenStates make_hidden_states(const Plan& plan, const nn::Instance& instance, const at::Tensor& like);

}  // namespace lockstep::train
