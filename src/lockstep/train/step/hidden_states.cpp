#include "lockstep/train/step/hidden_states.h"

#include <ATen/Functions.h>

namespace lockstep::train {

HiddenStates::HiddenStates(std::vector<nn::HiddenState> parts, int64_t slots, const at::Tensor& like)
    : parts_(std::move(parts)) {
  for (const nn::HiddenState& part : parts_) {
    std::vector<int64_t> shape{slots};
    shape.insert(shape.end(), part.shape.begin(), part.shape.end());
    for (auto* tensors : {&now_, &next_})
      tensors->push_back(at::zeros(shape, like.options().requires_grad(false)));
  }
}

std::vector<at::Tensor> rows_to_begin_with(const std::vector<at::Tensor>& left, const data::Shard& shard) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& tensor : left) {
    const at::Tensor anew = shard.continues.logical_not().to(tensor.device()).view({shard.count, 1, 1});
    rows.push_back(tensor.masked_fill(anew, 0));
  }
  return rows;
}

std::vector<at::Tensor> HiddenStates::rows(const data::Shard& shard) const {
  std::vector<at::Tensor> left;
  for (const at::Tensor& tensor : now_) left.push_back(tensor.narrow(0, shard.first, shard.count));
  return rows_to_begin_with(left, shard);
}

void HiddenStates::put(const data::Shard& shard, const std::vector<at::Tensor>& rows) {
  for (size_t i = 0; i < next_.size(); ++i) next_[i].narrow(0, shard.first, rows[i].size(0)).copy_(rows[i]);
}

void HiddenStates::collect(comm::Communicator& comm, Range slots) {
  for (const at::Tensor& tensor : now_) {
    const at::Tensor all = comm.cat(tensor.narrow(0, slots.begin, slots.count()));
    // This rank's own slots have not changed, and its other workers may be reading them for the next step.
    for (const Range others : {Range{0, slots.begin}, Range{slots.end, tensor.size(0)}})
      tensor.narrow(0, others.begin, others.count()).copy_(all.narrow(0, others.begin, others.count()));
  }
}

nn::NamedTensors HiddenStates::state() const {
  nn::NamedTensors state;
  for (size_t i = 0; i < now_.size(); ++i)
    state.emplace_back("carried." + parts_[i].name, now_[i]);  // the name in checkpoints
  return state;
}

HiddenStates make_hidden_states(const Plan& plan, const nn::Instance& instance, const at::Tensor& like) {
  return plan.step.tbptt_length > 0 ? HiddenStates(instance.hidden_state, plan.step.mini_batch_size, like)
                                    : HiddenStates();
}

}  // namespace lockstep::train
