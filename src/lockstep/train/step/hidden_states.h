// Recurrent state that goes on from one mini-batch to the next. It belongs to a stream, that is a place
// (slot) of the mini-batch; a slot's shard is always the same and so is its owner, so that no worker needs
// another's, and any number of workers carries the same bits.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/share.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/nn/network.h"
#include "lockstep/nn/safetensors.h"

namespace lockstep::train {

/// `left`, [b,...] for each part, as the shard's samples begin with it: zeros where a sequence begins anew.
std::vector<at::Tensor> rows_to_begin_with(const std::vector<at::Tensor>& left, const data::Shard& shard);

/// State before the step under way, and what its shards leave for the next. Workers may call rows() and put()
/// at once for different slots.
class HiddenStates {
 public:
  /// Carries nothing.
  HiddenStates() = default;
  /// All slots begin with zeros. `like` gives type and device.
  HiddenStates(std::vector<nn::HiddenState> parts, int64_t slots, const at::Tensor& like);

  /// What a shard whose first sample stands at slot `first` begins with: [b,...] for each part, zeros where a
  /// sequence begins anew. Empty when there is no hidden state.
  std::vector<at::Tensor> rows(const data::Shard& shard, int64_t first) const;
  void put(int64_t first, const std::vector<at::Tensor>& rows);
  /// The step is made: what was put counts. Called by one thread while no other is in rows() or put().
  void commit() { now_.swap(next_); }

  /// Every rank, between steps: brings all slots' state to all ranks; `slots` are those whose shards this
  /// rank computes. Called by one thread while others may be in rows() and put() for these.
  void collect(comm::Communicator& comm, Range slots);

  /// "hidden_state.lstm.h" [slots,layers,hidden] and so on, for checkpoints: before the step under way. The
  /// tensors share this object's memory.
  nn::NamedTensors state() const;

 private:
  std::vector<nn::HiddenState> parts_;
  std::vector<at::Tensor> now_;
  std::vector<at::Tensor> next_;
};

}  // namespace lockstep::train
