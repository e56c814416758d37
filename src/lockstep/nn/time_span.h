// The part of a mini-batch of sequences that a layer computes.
#pragma once

#include "lockstep/nn/layer.h"

namespace lockstep::nn {

/// Time steps [begin, begin + count), and the rows in which they are padding. Time steps that are padding in
/// all rows are omitted.
struct TimeSpan {
  int64_t begin = 0;
  int64_t count = 0;
  at::Tensor padding = {};  ///< bool [count,b,1]; undefined without padding

  /// [b,C,T] -> [b,C,count], with zeros where a row is padding.
  at::Tensor cut(const at::Tensor& values) const;
  /// [b,C,count] -> [b,C,`steps`], with zeros before and after.
  at::Tensor widen(const at::Tensor& values, int64_t steps) const;
  /// `padding` as [b,1,count]; undefined without padding.
  at::Tensor padding_by_row() const;
};

/// `steps` is T of the mini-batch, `device` where the padding is needed.
TimeSpan span_of(const TimeSteps& times, int64_t steps, at::Device device);

}  // namespace lockstep::nn
