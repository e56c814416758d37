#include "lockstep/train/update/compression.h"

#include <algorithm>

#include <ATen/Functions.h>

#include "lockstep/base/seed.h"

namespace lockstep::train {
namespace {

class TreeWay : public GradientCompressor {
 public:
  explicit TreeWay(comm::Communicator& comm) : comm_(comm) {}
  std::vector<comm::Node> exchange(const std::vector<comm::Node>& nodes, int64_t shard_count) override {
    return comm_.exchange_nodes(nodes, shard_count);
  }

 private:
  comm::Communicator& comm_;
};

// The largest nodes that this rank's shards make, each finished in the tree, in order. It does not matter for
// the bits which thread has which part of them.
at::Tensor own_sum(const std::vector<comm::Node>& nodes, const SharedWeights& weights, int64_t shard_count) {
  at::Tensor sum = at::zeros_like(weights.flat());
  for (const Range node : comm::whole_nodes(comm::shards_of(nodes), shard_count))
    sum.add_(comm::finish_whole(nodes, node));
  return sum;
}

class HalfWay : public GradientCompressor {
 public:
  HalfWay(comm::Communicator& comm, const SharedWeights& weights, at::ScalarType type)
      : comm_(comm), weights_(weights), type_(type) {}
  std::vector<comm::Node> exchange(const std::vector<comm::Node>& nodes, int64_t shard_count) override {
    const at::Tensor half = own_sum(nodes, weights_, shard_count).to(type_);
    comm_.all_reduce({half}, comm::Reduction::sum);
    return {{{0, shard_count}, half.to(weights_.type())}};
  }

 private:
  comm::Communicator& comm_;
  const SharedWeights& weights_;
  const at::ScalarType type_;
};

class PowerSgdWay : public GradientCompressor {
 public:
  PowerSgdWay(comm::Communicator& comm, const SharedWeights& weights, int64_t rank)
      : comm_(comm), weights_(weights), left_out_(at::zeros_like(weights.flat())) {
    for (const ParameterSlot& slot : weights.slots()) {
      const int64_t rows = slot.shape.empty() ? 1 : slot.shape[0],
                    columns = slot.count / std::max<int64_t>(rows, 1);
      const bool is_worth_it = slot.shape.size() > 1 && (rows + columns) * rank < slot.count;
      right_.push_back(is_worth_it ? start(columns, rank, right_.size()) : at::Tensor());
    }
  }

  std::vector<comm::Node> exchange(const std::vector<comm::Node>& nodes, int64_t shard_count) override {
    const at::Tensor sum = own_sum(nodes, weights_, shard_count).add_(left_out_);
    std::vector<at::Tensor> parts = weights_.views(sum), left, travelling;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (right_[i].defined()) left.push_back(matrix(parts[i]).mm(right_[i]));
      travelling.push_back(right_[i].defined() ? left.back() : parts[i]);
    }
    comm_.all_reduce(travelling, comm::Reduction::sum);
    travelling.clear();
    for (size_t i = 0, place = 0; i < parts.size(); ++i) {
      if (!right_[i].defined()) continue;
      left[place] = std::get<0>(at::linalg_qr(left[place]));
      right_[i] = matrix(parts[i]).t().mm(left[place++]);
      travelling.push_back(right_[i]);
    }
    comm_.all_reduce(travelling, comm::Reduction::sum);
    const std::vector<at::Tensor> missed = weights_.views(left_out_);
    for (size_t i = 0, place = 0; i < parts.size(); ++i) {
      if (!right_[i].defined()) continue;
      const at::Tensor whole = left[place++].mm(right_[i].t());
      matrix(missed[i]).copy_(matrix(parts[i]) - whole / static_cast<double>(comm_.size()));
      matrix(parts[i]).copy_(whole);
    }
    return {{{0, shard_count}, sum}};
  }

 private:
  static at::Tensor matrix(const at::Tensor& parameter) { return parameter.view({parameter.size(0), -1}); }

  // The same on every rank.
  at::Tensor start(int64_t columns, int64_t rank, uint64_t place) const {
    Random random(seed_of({place}));
    const at::Tensor values = at::empty({columns, rank}, at::kDouble);
    for (double *value = values.mutable_data_ptr<double>(), *end = value + values.numel(); value < end;
         ++value)
      *value = random.uniform() - 0.5;
    return values.to(weights_.flat().options());
  }

  comm::Communicator& comm_;
  const SharedWeights& weights_;
  at::Tensor left_out_;  // of this rank's sums until now
  std::vector<at::Tensor>
      right_;  // the thin factor of each parameter's last sum; undefined for those that are sent whole
};

}  // namespace

std::unique_ptr<GradientCompressor> make_gradient_compressor(ExchangeKind kind, comm::Communicator& comm,
                                                             const SharedWeights& weights, int64_t rank) {
  if (kind == ExchangeKind::bf16) return std::make_unique<HalfWay>(comm, weights, at::kBFloat16);
  if (kind == ExchangeKind::fp16) return std::make_unique<HalfWay>(comm, weights, at::kHalf);
  if (kind == ExchangeKind::powersgd) return std::make_unique<PowerSgdWay>(comm, weights, rank);
  return std::make_unique<TreeWay>(comm);
}

}  // namespace lockstep::train
