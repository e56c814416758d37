#include "lockstep/cli/layer_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>
#include <fcntl.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/csv_text.h"
#include "lockstep/base/descriptor.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/prediction_text.h"
#include "lockstep/nn/safetensors.h"
#include "lockstep/nn/tensor_bytes.h"
#include "lockstep/train/inference/layer_outputs.h"

namespace lockstep::cli {
namespace {

constexpr int64_t kMostTextNumbers = int64_t{1} << 24;

// The samples of all inputs, in one sequence.
struct Samples {
  int64_t count = 0;
  int64_t longest = 0;  // length of a sequence
  at::Tensor targets, lengths;
};

Samples samples_of(const std::vector<data::Dataset>& inputs) {
  Samples samples;
  std::vector<int64_t> targets, lengths;
  for (const data::Dataset& input : inputs) {
    for (int64_t i = 0; i < input.size(); ++i) {
      targets.push_back(input.store().label(i));
      if (input.store().kind() == data::SampleKind::sequence)
        lengths.push_back(input.store().image_size(i).width);
    }
  }
  samples.count = static_cast<int64_t>(targets.size());
  samples.targets = at::tensor(targets, at::kLong);
  if (lengths.empty()) return samples;
  samples.lengths = at::tensor(lengths, at::kLong);
  samples.longest = *std::max_element(lengths.begin(), lengths.end());
  return samples;
}

// Sample positions count over all inputs together.
void compute(const LayerWork& work, const train::LayerOutputs& outputs, const train::TakeRows& take) {
  int64_t begin = 0;
  for (const data::Dataset& input : work.inputs) {
    const auto take_here = [&](int64_t first, const at::Tensor& rows) {
      take(begin + first, rows);
      if (work.done) work.done(rows.size(0));
    };
    work.group == nullptr ? outputs.compute(input, take_here)
                          : outputs.compute(input, take_here, *work.group, work.rank_here);
    begin += input.size();
  }
}

nn::Metadata metadata_of(const train::Model& model, const std::string& layer,
                         const std::vector<data::Dataset>& inputs) {
  Json files = Json::array();
  for (const data::Dataset& input : inputs) {
    for (int64_t i = 0; i < input.size(); ++i) files.push_back(input.store().source(i));
  }
  return {{"layer", layer}, {"files", json_text(files, -1)}, {"classes", json_text(model.classes, -1)}};
}

void write_all(const std::filesystem::path& path, const nn::NamedTensors& tensors, const LayerWork& work,
               const train::LayerOutputs& outputs) {
  const std::string header =
      nn::safetensors_header(tensors, metadata_of(work.model, work.layer, work.inputs));
  const Json entries = Json::parse(std::string_view(header).substr(sizeof(uint64_t)));
  const auto place_of = [&](const std::string& name) {
    return static_cast<int64_t>(header.size()) + entries.at(name).at("data_offsets").at(0).get<int64_t>();
  };
  OpenFile file(path, O_WRONLY | O_CREAT | O_TRUNC);
  file.write_at(0, header);
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.is_meta()) file.write_at(place_of(name), nn::bytes_of(tensor));
  }
  const int64_t place = place_of("activations");
  compute(work, outputs, [&](int64_t first, const at::Tensor& rows) {
    const std::string_view bytes = nn::bytes_of(rows);
    file.write_at(place + first * static_cast<int64_t>(bytes.size()) / rows.size(0), bytes);
  });
  file.sync();
  file.close();
}

// "3.0.1" for each element of a shape, the last dimension fastest.
std::vector<std::string> place_names(const nn::Shape& shape) {
  std::vector<std::string> names{""};
  for (const int64_t size : shape) {
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (int64_t i = 0; i < size; ++i)
        longer.push_back((name.empty() ? "" : name + ".") + std::to_string(i));
    }
    names = std::move(longer);
  }
  return names;
}

// The shortest texts that convert back to the same numbers, and the end of the line.
template <class Number>
void append_numbers(std::string& text, std::span<const Number> numbers) {
  std::array<char, 64> buffer{};
  for (const Number number : numbers) {
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
    text += ",";
    text.append(buffer.data(), end.ptr);
  }
  text += "\n";
}

}  // namespace

void write_layer_file(const std::filesystem::path& path, const LayerWork& work) {
  const Samples samples = samples_of(work.inputs);
  const train::LayerOutputs outputs(work.model, work.layer, samples.longest, work.options);
  if (work.group != nullptr && work.group->rank() > 0) return compute(work, outputs, {});
  nn::Shape shape = outputs.shape();
  shape.insert(shape.begin(), samples.count);
  nn::NamedTensors tensors{
      {"activations", at::empty(shape, at::TensorOptions(outputs.type()).device(at::kMeta))},
      {"targets", samples.targets}};
  if (samples.lengths.defined()) tensors.emplace_back("lengths", samples.lengths);
  write_aside(path,
              [&](const std::filesystem::path& neighbour) { write_all(neighbour, tensors, work, outputs); });
}

std::string layer_csv(const LayerWork& work) {
  const Samples samples = samples_of(work.inputs);
  const train::LayerOutputs outputs(work.model, work.layer, samples.longest, work.options);
  const int64_t row_size = c10::multiply_integers(outputs.shape());
  if (row_size * samples.count > kMostTextNumbers) {
    throw Error(ErrorCode::invalid_option,
                "layer \"" + work.layer + "\" gives " + counted(row_size, "number") + " for each of " +
                    counted(samples.count, "sample") + ", too many for CSV",
                "--output FILE.safetensors");
  }
  if (work.group != nullptr && work.group->rank() > 0) return compute(work, outputs, {}), "";
  const at::Tensor all = at::empty({samples.count, row_size}, outputs.type());
  compute(work, outputs, [&](int64_t first, const at::Tensor& rows) {
    all.narrow(0, first, rows.size(0)).copy_(rows.reshape({rows.size(0), -1}));
  });

  std::string text = "file,target";
  for (const std::string& name : place_names(outputs.shape())) text += "," + name;
  text += "\n";
  int64_t row = 0;
  for (const data::Dataset& input : work.inputs) {
    for (int64_t i = 0; i < input.size(); ++i, ++row) {
      text += csv_cell(input.store().source(i)) + "," +
              csv_cell(class_name(work.model.classes, input.store().label(i)));
      if (all.scalar_type() == at::kDouble) {
        append_numbers(
            text, std::span(all.const_data_ptr<double>() + row * row_size, static_cast<size_t>(row_size)));
      } else {
        append_numbers(
            text, std::span(all.const_data_ptr<float>() + row * row_size, static_cast<size_t>(row_size)));
      }
    }
  }
  return text;
}

}  // namespace lockstep::cli
