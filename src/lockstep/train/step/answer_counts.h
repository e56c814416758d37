// What a network answers, counted by class.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/class_figures.h"
#include "lockstep/comm/communicator.h"

namespace lockstep::train {

/// The class with the highest score. As at::argmax: the first of the largest, and a NaN is larger than every
/// number.
int64_t answer_of(const float* scores, int64_t classes);

/// A confusion matrix of the samples, or labelled time steps, that one worker evaluates. The counts stay on
/// its device until counts_of_all(). Belongs to one thread.
class AnswerCounts {
 public:
  /// classes: above 0
  AnswerCounts(int64_t classes, at::Device device);

  /// A batch: logits [b,classes] or [b,classes,T] without a graph, target [b] or [b,T] in int64 on their
  /// device. Does not wait for a GPU. Where there are more or fewer outputs than classes, nothing is counted.
  void add(const at::Tensor& logits, const at::Tensor& target);

 private:
  friend ConfusionMatrix counts_of_all(const std::vector<AnswerCounts>& workers, comm::Communicator& comm);

  int64_t classes_;
  at::Tensor counts_;  // int64 [classes * classes + 1]; the last counts what has no class
  bool other_outputs_ = false;
};

/// The sum over the workers of this rank and over the ranks, equal on all ranks; empty where the network has
/// another number of outputs than classes. Every rank calls it, on one thread.
ConfusionMatrix counts_of_all(const std::vector<AnswerCounts>& workers, comm::Communicator& comm);

}  // namespace lockstep::train
