#include "lockstep/train/inference/layer_outputs.h"

#include <algorithm>
#include <mutex>
#include <numeric>

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>

#include "lockstep/device/failure.h"
#include "lockstep/pool/worker.h"
#include "lockstep/train/inference/inference.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/options/on_worker.h"

namespace lockstep::train {
namespace {

constexpr int64_t kMostGathered = int64_t{256} << 20;  // bytes that are gathered on rank 0 at once

nn::NetworkInput with_longest(nn::NetworkInput input, int64_t longest) {
  if (input.time_steps > 0) input.time_steps = longest;
  return input;
}

// One by one, without their padding.
at::Tensor rows_of_sequences(ShardRunner& runner, const data::Shard& shard, bool padded_left,
                             int64_t longest) {
  std::vector<at::Tensor> rows;
  const int64_t padded = shard.images.size(2);
  for (int64_t i = 0; i < shard.count; ++i) {
    const auto length = shard.lengths[i].item<int64_t>();
    const at::Tensor sequence =
        shard.images.narrow(0, i, 1).narrow(2, padded_left ? padded - length : 0, length).contiguous();
    const at::Tensor row = runner.features(sequence);
    rows.push_back(row.dim() == 3 ? at::constant_pad_nd(row, {0, longest - row.size(2)}) : row);
  }
  return at::cat(rows);
}

// The rows of a piece that one rank has computed, with several threads.
class PlacedRows {
 public:
  void add(int64_t first, const at::Tensor& rows) {
    const std::lock_guard lock(mutex_);
    places_.push_back(at::arange(first, first + rows.size(0), at::kLong));
    rows_.push_back(rows);
  }
  at::Tensor places() const { return places_.empty() ? at::empty({0}, at::kLong) : at::cat(places_); }
  at::Tensor rows(nn::Shape shape, at::ScalarType type) const {
    shape.insert(shape.begin(), 0);
    return rows_.empty() ? at::empty(shape, type) : at::cat(rows_);
  }

 private:
  std::mutex mutex_;
  std::vector<at::Tensor> places_, rows_;
};

// Calls `take` once for each group of neighbours.
void hand_over_rows(const at::Tensor& places, const at::Tensor& rows, const TakeRows& take) {
  const auto* place = places.const_data_ptr<int64_t>();
  for (int64_t begin = 0, end = 0; begin < places.numel(); begin = end) {
    for (end = begin + 1; end < places.numel() && place[end] == place[end - 1] + 1;) ++end;
    take(place[begin], rows.narrow(0, begin, end - begin));
  }
}

int64_t longest_of(const data::Dataset& dataset) {
  int64_t longest = 0;
  if (dataset.empty() || dataset.store().kind() != data::SampleKind::sequence) return longest;
  for (int64_t i = 0; i < dataset.size(); ++i)
    longest = std::max(longest, dataset.store().image_size(i).width);
  return longest;
}

}  // namespace

LayerOutputs::LayerOutputs(const Model& model, const std::string& layer, int64_t longest,
                           const Options& options)
    : layer_(nn::observe_layer(model.network, with_longest(model.input, longest), layer)),
      model_(model),
      longest_(longest),
      options_(options) {
  model_.network = layer_.network;
}

at::ScalarType LayerOutputs::type() const { return number_type(options_.precision); }

void LayerOutputs::compute_part(const data::Dataset& dataset, const Options& options, const TakeRows& take,
                                const Together& together) const {
  const bool padded_left = model_.padding == data::PaddingSide::left;
  for_each_shard(model_, dataset, options, layer_.layer_count, together,
                 [&](ShardRunner& runner, const data::Shard& shard, int64_t first) {
                   const at::Tensor rows = shard.lengths.defined()
                                               ? rows_of_sequences(runner, shard, padded_left, longest_)
                                               : runner.features(shard.images);
                   take(first, rows.to(at::kCPU, type()).contiguous());
                 });
}

void LayerOutputs::compute_alone(const data::Dataset& dataset, const Options& options, const TakeRows& take,
                                 std::stop_token stop) const {
  const auto alone = comm::make_communicator();
  compute_part(dataset, options, take, {.comm = *alone, .stop = std::move(stop)});
}

// In pieces of the dataset, to limit the memory of a rank. A piece has whole mini-batches, so the shards are
// those of the whole dataset.
void LayerOutputs::compute_over(const data::Dataset& dataset, const TakeRows& take,
                                const Together& together) const {
  const int64_t row_bytes = c10::multiply_integers(shape()) * static_cast<int64_t>(c10::elementSize(type()));
  const int64_t batch = options_.mini_batch_size;
  const int64_t piece =
      std::max<int64_t>(1, kMostGathered / (std::max<int64_t>(1, row_bytes) * batch)) * batch;
  const comm::WaitOptions wait{.timeout = comm::kAsLongAsItTakes, .stop = together.stop};
  try {
    for (int64_t begin = 0; begin < dataset.size(); begin += piece) {
      std::vector<int64_t> samples(static_cast<size_t>(std::min(piece, dataset.size() - begin)));
      std::iota(samples.begin(), samples.end(), begin);
      PlacedRows own;
      compute_part(
          dataset.subset(std::move(samples)), options_,
          [&](int64_t first, const at::Tensor& rows) { own.add(begin + first, rows); }, together);
      const std::vector<at::Tensor> places = together.comm.gather(own.places(), 0, wait);
      const std::vector<at::Tensor> rows = together.comm.gather(own.rows(shape(), type()), 0, wait);
      for (size_t rank = 0; rank < rows.size(); ++rank) hand_over_rows(places[rank], rows[rank], take);
    }
  } catch (...) {
    together.comm.abort(device::error_of(std::current_exception()));
    throw;
  }
}

void LayerOutputs::compute(const data::Dataset& dataset, const TakeRows& take, std::stop_token stop) const {
  const pool::Worker* worker = pool::Worker::current();
  if (worker == nullptr) return compute_alone(dataset, options_, take, std::move(stop));
  const EitherStop either(std::move(stop), worker->stop_token());
  if (!worker->same_process())
    return compute_over(
        dataset, take,
        {.comm = worker->comm(), .ranks = ranks_of(worker->comm(), 0), .stop = either.token()});
  const Options own = worker->size() == 1 ? options_ : with_gpus(options_, gpus_of_group(*worker));
  once_for_group(*worker, "LayerOutputs", [&] {
    compute_alone(dataset, own, take, either.token());
    return true;
  });
}

void LayerOutputs::compute(const data::Dataset& dataset, const TakeRows& take, comm::Communicator& comm,
                           int64_t rank_here) const {
  compute_over(dataset, take, {.comm = comm, .ranks = ranks_of(comm, rank_here)});
}

at::Tensor layer_outputs(const Model& model, const std::string& layer, const data::Dataset& dataset,
                         const Options& options, std::stop_token stop) {
  const LayerOutputs outputs(model, layer, longest_of(dataset), options);
  nn::Shape shape = outputs.shape();
  shape.insert(shape.begin(), dataset.size());
  at::Tensor all = at::empty(shape, outputs.type());
  outputs.compute(
      dataset, [&](int64_t first, const at::Tensor& rows) { all.narrow(0, first, rows.size(0)).copy_(rows); },
      std::move(stop));
  // Only rank 0 has them. The communicator of a task also works between threads.
  const pool::Worker* worker = pool::Worker::current();
  if (worker != nullptr && worker->size() > 1)
    worker->comm().broadcast({all}, 0, {.timeout = comm::kAsLongAsItTakes});
  return all;
}

}  // namespace lockstep::train
