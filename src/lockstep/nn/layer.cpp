#include "lockstep/nn/layer.h"

#include "lockstep/base/counted.h"
#include "lockstep/base/text.h"

namespace lockstep::nn {

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  return text + "]";
}

int64_t checked_count(const Shape& shape, const std::string& what) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(count, size, &count) || count > kMostNumbers) {
      throw Misfit{"would have " + what + " of " + shape_text(shape) + ", more than the maximum of " +
                       with_commas(kMostNumbers) + " numbers",
                   "use fewer or smaller filters, features or images"};
    }
  }
  return count;
}

const LayerInput& only_input(const std::vector<LayerInput>& inputs) {
  if (inputs.size() != 1)
    throw Misfit{"takes one input, but " + std::to_string(inputs.size()) + " are given",
                 "use an add or concatenate layer for several inputs"};
  return inputs.front();
}

const LayerInput& image_input(const std::vector<LayerInput>& inputs) {
  const LayerInput& input = only_input(inputs);
  if (input.shape.size() != 3) {
    throw Misfit{
        "needs images [channels,height,width], but \"" + input.name + "\" returns " + shape_text(input.shape),
        "move it before the flatten or linear layer"};
  }
  return input;
}

const LayerInput& sequence_input(const std::vector<LayerInput>& inputs) {
  const LayerInput& input = only_input(inputs);
  if (input.shape.size() != 2) {
    throw Misfit{"needs sequences [channels,time steps], but \"" + input.name + "\" returns " +
                     shape_text(input.shape),
                 input.shape.size() == 1
                     ? "set \"output\": \"sequence\" in the lstm or gru layer before it"
                     : "train the network on sequences: a .ts file or a folder of CSV files"};
  }
  return input;
}

const LayerInput& timeless_input(const std::vector<LayerInput>& inputs, const char* why) {
  const LayerInput& input = only_input(inputs);
  if (input.shape.size() == 2) {
    throw Misfit{std::string("does not accept sequences: ") + why,
                 "move it after an lstm or gru layer with \"output\": \"last\""};
  }
  return input;
}

void check_groups(int64_t groups, int64_t filters, const LayerInput& input) {
  const int64_t channels = input.shape.front();
  if (channels % groups == 0 && filters % groups == 0) return;
  throw Misfit{"has " + counted(groups, "group") + ", which must divide the " + counted(channels, "channel") +
                   " of \"" + input.name + "\" and the " + counted(filters, "filter"),
               "use a number of groups that divides both"};
}

Pair pair_of(const std::vector<int64_t>& values, const char* name, Pair fallback) {
  if (values.empty()) return fallback;
  if (values.size() > 2)
    throw Misfit{"has " + std::to_string(values.size()) + " numbers in \"" + name + "\"",
                 "give one number, or two for height and width"};
  return {values.front(), values.back()};
}

std::string pair_text(Pair pair) { return std::to_string(pair.height) + "x" + std::to_string(pair.width); }

Shape windowed_shape(const LayerInput& input, int64_t channels, const kernels::Window& rows,
                     const kernels::Window& columns) {
  const Shape output{channels, kernels::window_count(input.shape[1], rows),
                     kernels::window_count(input.shape[2], columns)};
  if (output[1] < 1 || output[2] < 1) {
    const Pair reach{rows.dilation * (rows.kernel - 1) + 1, columns.dilation * (columns.kernel - 1) + 1};
    throw Misfit{"has a window of " + pair_text(reach) + " that does not fit into " +
                     shape_text(input.shape) + " from \"" + input.name + "\" with padding " +
                     pair_text({rows.padding, columns.padding}),
                 "use larger images, more padding or a smaller kernel", true};
  }
  checked_count(output, "an output");
  return output;
}

}  // namespace lockstep::nn
