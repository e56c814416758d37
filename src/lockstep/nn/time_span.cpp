#include "lockstep/nn/time_span.h"

#include <algorithm>

#include <ATen/ATen.h>

namespace lockstep::nn {

TimeSpan span_of(const TimeSteps& times, int64_t steps, at::Device device) {
  const at::Tensor lengths = times.lengths.contiguous();
  const int64_t rows = lengths.numel();
  const int64_t* length = lengths.const_data_ptr<int64_t>();
  const auto [shortest, longest] = std::minmax_element(length, length + rows);
  TimeSpan span{.count = std::max<int64_t>(*longest, 1)};
  if (times.padded_left) span.begin = steps - span.count;
  if (*shortest == span.count) return span;
  at::Tensor padding = at::zeros({span.count, rows, 1}, at::kBool);
  for (int64_t row = 0; row < rows; ++row) {
    padding.select(1, row)
        .narrow(0, times.padded_left ? 0 : length[row], span.count - length[row])
        .fill_(true);
  }
  span.padding = padding.to(device);
  return span;
}

at::Tensor TimeSpan::padding_by_row() const {
  return padding.defined() ? padding.permute({1, 2, 0}) : at::Tensor();
}

at::Tensor TimeSpan::cut(const at::Tensor& values) const {
  const at::Tensor part = values.narrow(2, begin, count);
  return padding.defined() ? part.masked_fill(padding_by_row(), 0) : part;
}

at::Tensor TimeSpan::widen(const at::Tensor& values, int64_t steps) const {
  return count == steps ? values : at::constant_pad_nd(values, {begin, steps - begin - count});
}

}  // namespace lockstep::nn
