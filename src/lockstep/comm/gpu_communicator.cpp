// The communication between ranks with GPUs. Before a call the ranks compare it through the host, so that no
// GPU waits for a message that never comes; then the values go from GPU to GPU. NCCL's own sums do not follow
// the fixed tree. So slices are sent, added here elementwise in the tree's order, which rounds alike on every
// device, and sent back, as gloo_communicator.cpp does on CPUs.
#include "lockstep/comm/gpu_communicator.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/comm/internal/collective.h"
#include "lockstep/comm/internal/group_reduce.h"
#include "lockstep/device/failure.h"
#include "lockstep/device/gpu.h"

namespace lockstep::comm {
namespace {

using Message = device::GpuLink::Message;

bool is_half_float(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

/// For threads that wait on GPUs: throws where another rank failed, a stop is requested, or the time is over
/// (then `late`). `host` and `options` must outlive it.
std::function<void()> watch(const Communicator& host, const CommunicatorOptions& options, Deadline until,
                            Error late) {
  return [&host, &options, until = std::move(until), late = std::move(late)] {
    if (const std::string failure = host.failure(); !failure.empty())
      throw Error(ErrorCode::cancelled, failure);
    if (options.stop.stop_requested() || until.stop.stop_requested())
      throw Error(ErrorCode::cancelled, "rank " + std::to_string(host.rank()) + " was stopped");
    if (Deadline::Clock::now() >= until.time) throw late;
  };
}

at::Tensor slice_of(const at::Tensor& row, Range part) { return row.narrow(0, part.begin, part.count()); }

/// Tensors of one type as one contiguous row: the tensor itself, or a copy that is written back.
class DeviceRow {
 public:
  explicit DeviceRow(const std::vector<at::Tensor>& tensors) : tensors_(tensors) {
    if (tensors.size() == 1 && tensors.front().is_contiguous()) {
      row_ = tensors.front().detach().view({-1});
      return;
    }
    std::vector<at::Tensor> flat;
    for (const at::Tensor& tensor : tensors) flat.push_back(tensor.detach().flatten());
    row_ = at::cat(flat);
    copied_ = true;
  }
  const at::Tensor& row() const { return row_; }
  void write_back() const {
    int64_t at = 0;
    for (const at::Tensor& tensor : tensors_) {
      if (copied_) tensor.detach().copy_(row_.narrow(0, at, tensor.numel()).view(tensor.sizes()));
      at += tensor.numel();
    }
  }

 private:
  const std::vector<at::Tensor>& tensors_;
  at::Tensor row_;
  bool copied_ = false;
};

class GpuCommunicator : public Communicator {
 public:
  GpuCommunicator(GpuPlace place, CommunicatorOptions options)
      : place_(std::move(place)), options_(std::move(options)) {}

  Share share() const override { return place_.host->share(); }
  std::string way() const override { return place_.link->way() + ", and " + place_.host->way(); }
  void barrier(const WaitOptions& wait) override { place_.host->barrier(of_host(wait)); }
  void all_reduce(const std::vector<at::Tensor>& tensors, Reduction reduction,
                  const WaitOptions& wait) override;
  void broadcast(const std::vector<at::Tensor>& tensors, int64_t root, const WaitOptions& wait) override;
  std::vector<Node> exchange_nodes(const std::vector<Node>& nodes, int64_t shard_count,
                                   const WaitOptions& wait) override;
  void abort(const Error& reason) override { place_.host->abort(reason); }
  std::string failure() const override { return place_.host->failure(); }

 protected:
  std::vector<at::Tensor> collect(const at::Tensor& tensor, int64_t root, const WaitOptions& wait) override;

 private:
  bool is_near(const at::Tensor& tensor) const { return tensor.device() == place_.link->device(); }
  std::vector<at::Tensor> near(const std::vector<at::Tensor>& tensors, bool wanted) const;
  at::TensorOptions like(at::ScalarType type) const {
    return at::TensorOptions().dtype(type).device(place_.link->device());
  }
  WaitOptions of_host(const WaitOptions& wait) const {
    return {.timeout = wait.timeout.value_or(options_.timeout), .stop = wait.stop};
  }
  std::vector<Announcement> synchronize(const Announcement& own, const WaitOptions& wait);
  void send(const std::vector<Message>& sends, const std::vector<Message>& receives, const WaitOptions& wait);
  void give_slices(const at::Tensor& result, const WaitOptions& wait);
  void reduce_row(const at::Tensor& row, Reduction reduction, const WaitOptions& wait);
  at::Tensor finish_tree(const std::vector<Node>& nodes, const TreePlan& plan, const WaitOptions& wait);
  [[noreturn]] void leave(const Error& error) {
    place_.host->abort(error);
    throw error;
  }

  GpuPlace place_;
  const CommunicatorOptions options_;
};

std::vector<at::Tensor> GpuCommunicator::near(const std::vector<at::Tensor>& tensors, bool wanted) const {
  std::vector<at::Tensor> some;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(some),
               [&](const at::Tensor& tensor) { return is_near(tensor) == wanted; });
  return some;
}

std::vector<Announcement> GpuCommunicator::synchronize(const Announcement& own, const WaitOptions& wait) {
  const at::Tensor bytes = at::empty({static_cast<int64_t>(sizeof own)}, at::kByte);
  std::memcpy(bytes.data_ptr(), &own, sizeof own);
  std::vector<Announcement> said;
  for (const at::Tensor& one : place_.host->all_gather(bytes, of_host(wait)))
    std::memcpy(&said.emplace_back(), one.const_data_ptr(), sizeof own);
  const Misfit misfit =
      misfit_of(size(), [&](int64_t rank) -> const Announcement& { return said[static_cast<size_t>(rank)]; });
  if (!misfit.why.empty()) leave(Error(ErrorCode::invalid_option, misfit.why, misfit.hint));
  return said;
}

// All ranks have called: from here only a rank that dies or is stopped keeps the others waiting.
void GpuCommunicator::send(const std::vector<Message>& sends, const std::vector<Message>& receives,
                           const WaitOptions& wait) {
  const auto some = [](const std::vector<Message>& messages) {
    std::vector<Message> filled;
    std::copy_if(messages.begin(), messages.end(), std::back_inserter(filled),
                 [](const Message& message) { return message.values.numel() > 0; });
    return filled;
  };
  Deadline until = Deadline::after(wait.timeout.value_or(options_.timeout), wait.stop);
  Error late(ErrorCode::timeout,
             "messages between the GPUs of " + std::to_string(size()) + " ranks were not there in time");
  try {
    place_.link->exchange(some(sends), some(receives),
                          watch(*place_.host, options_, std::move(until), std::move(late)));
  } catch (const Error& error) {
    leave(error);
  } catch (...) {
    leave(device::error_of(std::current_exception()));
  }
}

// Before: every rank has its own slice of `result`. After: every rank has all slices.
void GpuCommunicator::give_slices(const at::Tensor& result, const WaitOptions& wait) {
  std::vector<Message> sends, receives;
  const at::Tensor own = slice_of(result, part_of(result.numel(), size(), rank()));
  for (int64_t peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    sends.push_back({own, peer});
    receives.push_back({slice_of(result, part_of(result.numel(), size(), peer)), peer});
  }
  send(sends, receives, wait);
}

void GpuCommunicator::reduce_row(const at::Tensor& row, Reduction reduction, const WaitOptions& wait) {
  const Range own = part_of(row.numel(), size(), rank());
  std::vector<Message> sends, receives;
  std::vector<at::Tensor> pieces;
  for (int64_t peer = 0; peer < size(); ++peer) {
    pieces.push_back(peer == rank() ? slice_of(row, own) : at::empty({own.count()}, row.options()));
    if (peer == rank()) continue;
    sends.push_back({slice_of(row, part_of(row.numel(), size(), peer)), peer});
    receives.push_back({pieces.back(), peer});
  }
  send(sends, receives, wait);
  const auto type = is_half_float(row.scalar_type()) ? at::kFloat : row.scalar_type();
  at::Tensor sum = pieces.front().to(type);
  for (size_t i = 1; i < pieces.size(); ++i)
    sum = reduction == Reduction::max ? at::maximum(sum, pieces[i].to(type))
                                      : at::add(sum, pieces[i].to(type)).to(type);
  // Division by a tensor, because division by a number would multiply by its reciprocal.
  if (reduction == Reduction::mean) sum = sum.div(at::full({1}, static_cast<double>(size()), sum.options()));
  slice_of(row, own).copy_(sum);
  give_slices(row, wait);
}

void GpuCommunicator::all_reduce(const std::vector<at::Tensor>& tensors, Reduction reduction,
                                 const WaitOptions& wait) {
  const auto here = near(tensors, true);
  if (here.size() < tensors.size() || tensors.empty())
    place_.host->all_reduce(near(tensors, false), reduction, of_host(wait));
  if (here.empty()) return;
  const at::NoGradGuard no_grad;
  for (const auto& [type, part] : by_type(here)) {
    check_reducible(type, reduction);
    const DeviceRow row(part);
    synchronize({.collective = static_cast<uint32_t>(Collective::all_reduce),
                 .type = static_cast<int32_t>(type),
                 .reduction = static_cast<int32_t>(reduction),
                 .elements = row.row().numel()},
                wait);
    reduce_row(row.row(), reduction, wait);
    row.write_back();
  }
}

void GpuCommunicator::broadcast(const std::vector<at::Tensor>& tensors, int64_t root,
                                const WaitOptions& wait) {
  check_root(root, size());
  const auto here = near(tensors, true);
  if (here.size() < tensors.size() || tensors.empty())
    place_.host->broadcast(near(tensors, false), root, of_host(wait));
  if (here.empty()) return;
  const at::NoGradGuard no_grad;
  for (const auto& [type, part] : by_type(here)) {
    const DeviceRow row(part);
    synchronize({.collective = static_cast<uint32_t>(Collective::broadcast),
                 .type = static_cast<int32_t>(type),
                 .root = static_cast<int32_t>(root),
                 .elements = row.row().numel()},
                wait);
    std::vector<Message> sends, receives;
    for (int64_t peer = 0; rank() == root && peer < size(); ++peer) {
      if (peer != root) sends.push_back({row.row(), peer});
    }
    if (rank() != root) receives.push_back({row.row(), root});
    send(sends, receives, wait);
    if (rank() != root) row.write_back();
  }
}

std::vector<at::Tensor> GpuCommunicator::collect(const at::Tensor& tensor, int64_t root,
                                                 const WaitOptions& wait) {
  if (!is_near(tensor))
    return root == kEveryRank ? place_.host->all_gather(tensor, of_host(wait))
                              : place_.host->gather(tensor, root, of_host(wait));
  if (root != kEveryRank) check_root(root, size());
  const std::vector<Announcement> said = synchronize(announcement_of(tensor, root), wait);
  const at::Tensor own = tensor.detach().contiguous();
  std::vector<Message> sends, receives;
  std::vector<at::Tensor> parts;
  for (int64_t peer = 0; peer < size(); ++peer) {
    if (peer != rank() && (root == kEveryRank || root == peer)) sends.push_back({own, peer});
    if (root != kEveryRank && root != rank()) continue;
    const Announcement& of_peer = said[static_cast<size_t>(peer)];
    parts.push_back(peer == rank() ? own.clone()
                                   : at::empty(at::IntArrayRef(of_peer.sizes.data(), of_peer.dimensions),
                                               like(tensor.scalar_type())));
    if (peer != rank()) receives.push_back({parts.back(), peer});
  }
  send(sends, receives, wait);
  return parts;
}

// A rank without shards cannot tell from its own nodes where the others' are, so all ranks announce it.
std::vector<Node> GpuCommunicator::exchange_nodes(const std::vector<Node>& nodes, int64_t shard_count,
                                                  const WaitOptions& wait) {
  const at::NoGradGuard no_grad;
  Announcement own = announcement_of(nodes, shard_count);
  own.reduction = !nodes.empty() && is_near(nodes.front().sum);
  const std::vector<Announcement> said = synchronize(own, wait);
  if (std::none_of(said.begin(), said.end(), [](const Announcement& rank) { return rank.reduction != 0; }))
    return place_.host->exchange_nodes(nodes, shard_count, of_host(wait));
  if (const std::string why = misplaced_shard(said, shard_count); !why.empty())
    leave(Error(ErrorCode::invalid_option, why));
  return {{{0, shard_count}, finish_tree(nodes, TreePlan(said, shard_count), wait)}};
}

at::Tensor GpuCommunicator::finish_tree(const std::vector<Node>& nodes, const TreePlan& plan,
                                        const WaitOptions& wait) {
  const auto part = [&](int64_t rank) { return part_of(plan.elements, size(), rank); };
  std::vector<at::Tensor> whole;  // this rank's nodes
  for (const Range range : plan.nodes[static_cast<size_t>(rank())])
    whole.push_back(finish_whole(nodes, range).detach().contiguous());
  std::vector<Message> sends, receives;
  std::vector<Node> pieces;  // all ranks' nodes, of this rank's slice
  for (int64_t peer = 0; peer < size(); ++peer) {
    const auto& ranges = plan.nodes[static_cast<size_t>(peer)];
    for (size_t i = 0; i < ranges.size(); ++i) {
      pieces.push_back({ranges[i], peer == rank() ? slice_of(whole[i], part(rank()))
                                                  : at::empty({part(rank()).count()}, like(plan.type))});
      if (peer != rank()) receives.push_back({pieces.back().sum, peer});
    }
    for (const at::Tensor& node : whole) {
      if (peer != rank()) sends.push_back({slice_of(node, part(peer)), peer});
    }
  }
  send(sends, receives, wait);
  const at::Tensor sum = at::empty({plan.elements}, like(plan.type));
  slice_of(sum, part(rank())).copy_(finish_whole(pieces, plan.shard_count));
  give_slices(sum, wait);
  return sum;
}

}  // namespace

std::unique_ptr<Communicator> make_gpu_communicator(GpuPlace place, CommunicatorOptions options) {
  return std::make_unique<GpuCommunicator>(std::move(place), std::move(options));
}

namespace {

at::Tensor bytes_of(const std::string& text) {
  const at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  if (!text.empty()) std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

std::string text_of(const at::Tensor& bytes) {
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())};
}

// NCCL would refuse it too, with a message of its own.
void check_own_gpu(Communicator& host, const std::string& gpu) {
  std::map<std::string, size_t> owners;
  const auto all = host.all_gather(bytes_of(host_name() + ", " + gpu));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto [owner, is_new] = owners.emplace(text_of(all[rank]), rank);
    if (is_new) continue;
    throw Error(ErrorCode::device,
                "ranks " + std::to_string(owner->second) + " and " + std::to_string(rank) +
                    " have the same GPU (" + owner->first + ")",
                "start a rank for each GPU; --workers lets several workers of a rank share its GPU");
  }
}

}  // namespace

std::unique_ptr<device::GpuLink> link_gpus(Communicator& host, int64_t gpu,
                                           const CommunicatorOptions& options) {
  const device::GpuLibrary& library = device::gpu_library();
  check_own_gpu(host, library.address(gpu));
  const std::string token =
      text_of(host.cat(bytes_of(host.rank() == 0 ? library.link_token() : std::string())));
  Error late(ErrorCode::timeout,
             "the GPUs of " + std::to_string(host.size()) + " ranks were not linked in time",
             "NCCL_DEBUG=INFO tells what NCCL does");
  return library.connect(
      {.token = token,
       .share = host.share(),
       .gpu = gpu,
       .check = watch(host, options, Deadline::after(options.timeout, {}), std::move(late))});
}

namespace {

class LinkAtFirstUse : public device::GpuLink {
 public:
  LinkAtFirstUse(std::shared_ptr<Communicator> host, int64_t gpu, CommunicatorOptions options)
      : host_(std::move(host)),
        gpu_(gpu),
        device_(device::gpu_library().device(gpu)),
        options_(std::move(options)) {}

  at::Device device() const override { return device_; }
  std::string way() const override { return link_ == nullptr ? "a link between GPUs" : link_->way(); }
  // All ranks take part in every call, also ranks that neither send nor receive.
  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                const Check& check) override {
    if (link_ == nullptr) link_ = link_gpus(*host_, gpu_, options_);
    link_->exchange(sends, receives, check);
  }

 private:
  const std::shared_ptr<Communicator> host_;
  const int64_t gpu_;
  const at::Device device_;
  const CommunicatorOptions options_;
  std::unique_ptr<device::GpuLink> link_;
};

}  // namespace

std::unique_ptr<device::GpuLink> link_gpus_at_first_use(std::shared_ptr<Communicator> host, int64_t gpu,
                                                        CommunicatorOptions options) {
  return std::make_unique<LinkAtFirstUse>(std::move(host), gpu, std::move(options));
}

}  // namespace lockstep::comm
