#include "lockstep/train/planning/sequence_data.h"

#include <algorithm>
#include <numeric>

#include "lockstep/data/sequences.h"
#include "lockstep/data/survey.h"

namespace lockstep::train {

data::ImageFormat sequence_format(const data::Dataset& train, data::PaddingSide padding) {
  data::ImageFormat format = data::format_of(train);
  format.padding = padding;
  return format;
}

nn::NetworkInput network_input(const data::Dataset& train, const data::ImageFormat& format) {
  const auto classes = static_cast<int64_t>(train.classes().size());
  if (format.kind != data::SampleKind::sequence)
    return {format.channels, format.height, format.width, classes};
  return {.channels = format.channels,
          .height = 1,
          .width = 1,
          .classes = classes,
          .time_steps = format.width,
          .labels_time_steps = train.store().labels_time_steps()};
}

data::Dataset sorted_by_length(const data::Dataset& dataset) {
  std::vector<int64_t> indices(static_cast<size_t>(dataset.size()));
  std::iota(indices.begin(), indices.end(), 0);
  const auto length = [&](int64_t index) { return dataset.store().image_size(index).width; };
  std::stable_sort(indices.begin(), indices.end(),
                   [&](int64_t a, int64_t b) { return length(a) < length(b); });
  return dataset.subset(std::move(indices));
}

void cut_into_pieces(Datasets& sets, int64_t time_steps, int64_t slots) {
  for (data::Dataset* dataset : {&sets.train, &sets.validation, &sets.test}) {
    if (!dataset->empty())
      *dataset = data::stream_pieces(*dataset, {.time_steps = time_steps, .slots = slots});
  }
}

}  // namespace lockstep::train
