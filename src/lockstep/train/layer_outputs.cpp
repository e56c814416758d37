#include "lockstep/train/layer_outputs.h"

#include <ATen/Functions.h>

#include "lockstep/train/inference.h"
#include "lockstep/train/number_type.h"

namespace lockstep::train {
namespace {

nn::NetworkInput as_long_as(nn::NetworkInput input, int64_t longest) {
  if (input.steps > 0) input.steps = longest;
  return input;
}

// Without their padding, so one by one.
at::Tensor rows_of_sequences(Replica& replica, const data::Shard& shard, bool padded_left, int64_t longest) {
  std::vector<at::Tensor> rows;
  const int64_t padded = shard.pictures.size(2);
  for (int64_t i = 0; i < shard.count; ++i) {
    const auto length = shard.lengths[i].item<int64_t>();
    const at::Tensor sequence = shard.pictures.narrow(0, i, 1).narrow(2, padded_left ? padded - length : 0, length).contiguous();
    const at::Tensor row = replica.features(sequence);
    rows.push_back(row.dim() == 3 ? at::constant_pad_nd(row, {0, longest - row.size(2)}) : row);
  }
  return at::cat(rows);
}

}  // namespace

LayerOutputs::LayerOutputs(const Model& model, const std::string& layer, int64_t longest, const Options& options)
    : layer_(nn::observe_layer(model.network, as_long_as(model.input, longest), layer)), model_(model), longest_(longest), options_(options) {
  model_.network = layer_.network;
}

at::ScalarType LayerOutputs::type() const { return number_type(options_.precision); }

void LayerOutputs::compute(const data::Dataset& dataset, const TakeRows& take, std::stop_token stop) const {
  const bool padded_left = model_.padding == data::PaddingSide::left;
  const auto alone = comm::make_communicator();
  for_each_shard(model_, dataset, options_, layer_.steps, {.comm = *alone, .stop = std::move(stop)}, [&](Replica& replica, const data::Shard& shard, int64_t first) {
    const at::Tensor rows = shard.lengths.defined() ? rows_of_sequences(replica, shard, padded_left, longest_) : replica.features(shard.pictures);
    take(first, rows.to(at::kCPU, type()).contiguous());
  });
}

}  // namespace lockstep::train
