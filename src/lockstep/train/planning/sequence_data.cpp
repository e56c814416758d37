#include "lockstep/train/planning/sequence_data.h"

#include <algorithm>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/data/sequences.h"
#include "lockstep/data/survey.h"

namespace lockstep::train {
namespace {

data::Dataset sorted_by_length(const data::Dataset& dataset) {
  std::vector<int64_t> indices(static_cast<size_t>(dataset.size()));
  std::iota(indices.begin(), indices.end(), 0);
  const auto length = [&](int64_t index) { return dataset.store().image_size(index).width; };
  std::stable_sort(indices.begin(), indices.end(),
                   [&](int64_t a, int64_t b) { return length(a) < length(b); });
  return dataset.subset(std::move(indices));
}

}  // namespace

data::ImageFormat sequence_format(const data::Dataset& train, const Options& options) {
  data::ImageFormat format = data::format_of(train);
  format.padding = options.sequence_padding;
  return format;
}

nn::NetworkInput sequence_input(const data::Dataset& train, const data::ImageFormat& format) {
  return {.channels = format.channels,
          .height = 1,
          .width = 1,
          .classes = static_cast<int64_t>(train.classes().size()),
          .time_steps = format.width,
          .labels_time_steps = train.store().labels_time_steps()};
}

void arrange_sequences(data::Dataset& train, data::Dataset& validation, data::Dataset& test, Plan& plan,
                       const Options& options, const Plan* earlier) {
  if (options.sort_by_length) {
    if (options.shuffle != data::Shuffle::never)
      throw Error(ErrorCode::invalid_option, "--sort-by-length goes with an order that is not shuffled",
                  "add --shuffle never");
    train = sorted_by_length(train);
  }
  if (options.tbptt_length == 0) return;
  if (options.scale_with_workers != ScaleWithWorkers::none) {
    throw Error(
        ErrorCode::invalid_option,
        "--scale-with-workers cannot go with --tbptt-length, whose slots must not depend on the workers",
        "set --mini-batch-size");
  }
  if (options.exchange == ExchangeKind::average) {
    throw Error(ErrorCode::invalid_option,
                "--exchange average cannot go with --tbptt-length: replicas do not carry recurrent state on",
                "leave one of them out");
  }
  if (options.mini_batch_size.is_auto())
    throw Error(ErrorCode::invalid_option,
                "--mini-batch-size auto cannot go with --tbptt-length, whose slots decide what a stream is",
                "name a number");
  plan.step.tbptt_length = options.tbptt_length;
  const int64_t slots = earlier != nullptr ? earlier->step.mini_batch_size
                                           : std::min<int64_t>(options.mini_batch_size, train.size());
  plan.step.mini_batch_size = slots;
  for (data::Dataset* dataset : {&train, &validation, &test}) {
    if (!dataset->empty())
      *dataset = data::stream_pieces(*dataset, {.time_steps = options.tbptt_length, .slots = slots});
  }
  plan.data.train_count = train.size();
  plan.data.validation_count = validation.size();
  plan.data.test_count = test.size();
}

std::vector<PlanLine> sequence_lines(const Plan& plan, const Options& options) {
  std::vector<PlanLine> lines;
  lines.push_back(
      {"sequences",
       std::to_string(plan.network.input.channels) + " channels, up to " +
           std::to_string(plan.network.input.time_steps) + " time steps",
       plan.network.input.labels_time_steps ? "a class for each time step" : "a class for each sequence"});
  lines.push_back({"padding", field_text(options, "sequence-padding"),
                   options.sequence_length > 0
                       ? "to " + std::to_string(options.sequence_length) + " time steps at least"
                       : "to the longest of the mini-batch"});
  if (plan.step.tbptt_length > 0) {
    lines.push_back({"pieces", std::to_string(plan.step.tbptt_length) + " time steps",
                     "in " + std::to_string(plan.step.mini_batch_size) +
                         " slots, state carried on in each; not shuffled"});
  }
  if (options.sort_by_length) lines.push_back({"order", "by length", "asked for"});
  lines.push_back({"normalize", options.normalize,
                   options.normalize == "mean-std" ? "of the training sequences" : "of values as they are"});
  return lines;
}

}  // namespace lockstep::train
