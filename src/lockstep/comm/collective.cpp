#include "lockstep/comm/internal/collective.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::comm {
namespace {

constexpr std::array<const char*, 6> kCollectiveNames{"nothing",   "barrier", "all_reduce",
                                                      "broadcast", "gather",  "reduce_tree"};

std::string described(const Announcement& said) {
  std::string text = name_of_collective(said.collective);
  if (said.collective == static_cast<uint32_t>(Collective::barrier)) return text;
  return text + " of " + with_commas(said.elements) + " elements of type " +
         c10::toString(static_cast<at::ScalarType>(said.type));
}

// A rank without shards has no vector that would tell the size and type.
bool has_vectors(const Announcement& said) { return said.sizes[0] < said.sizes[1]; }

bool fit_together(const Announcement& a, const Announcement& b) {
  if (a.collective == static_cast<uint32_t>(Collective::reduce_tree) && b.collective == a.collective) {
    return a.sizes[2] == b.sizes[2] &&
           (!has_vectors(a) || !has_vectors(b) || (a.type == b.type && a.elements == b.elements));
  }
  const bool any_size = a.collective == static_cast<uint32_t>(Collective::gather);
  return a.collective == b.collective && a.type == b.type && a.reduction == b.reduction && a.root == b.root &&
         (any_size || a.elements == b.elements);
}

// "rank 1 of 3", "ranks 1, 2 of 3"
std::string names_of(const std::vector<int64_t>& ranks, int64_t size) {
  std::vector<std::string> names;
  for (const int64_t rank : ranks) names.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(names, ", ") + " of " + std::to_string(size);
}

}  // namespace

const char* name_of_collective(uint32_t collective) {
  return kCollectiveNames[collective < kCollectiveNames.size() ? collective : 0];
}

std::string late_ranks(const std::vector<int64_t>& missing, int64_t size, const char* what,
                       std::chrono::milliseconds timeout) {
  return names_of(missing, size) + " did not come to " + what + " within " +
         shortest(static_cast<double>(timeout.count()) / 1000) + " s";
}

std::string gone_ranks(const std::vector<int64_t>& gone, Share waiting, const char* what) {
  return names_of(gone, waiting.size) + (gone.size() == 1 ? " has" : " have") + " left while rank " +
         std::to_string(waiting.rank) + " waits for " + (gone.size() == 1 ? "it" : "them") + " in " + what;
}

void check_root(int64_t root, int64_t size) {
  if (root < 0 || root >= size)
    throw Error(ErrorCode::invalid_option,
                "there is no rank " + std::to_string(root) + " in a group of " + std::to_string(size));
}

Announcement announcement_of(const std::vector<Node>& nodes, int64_t shard_count) {
  const Range own = shards_of(nodes);
  Announcement announcement{.collective = static_cast<uint32_t>(Collective::reduce_tree)};
  announcement.sizes[0] = own.begin;
  announcement.sizes[1] = own.end;
  announcement.sizes[2] = shard_count;
  if (!nodes.empty()) {
    announcement.type = static_cast<int32_t>(nodes.front().sum.scalar_type());
    announcement.elements = nodes.front().sum.numel();
  }
  return announcement;
}

Announcement announcement_of(const at::Tensor& gathered, int64_t root) {
  if (static_cast<size_t>(gathered.dim()) > kMostDimensions) {
    throw Error(ErrorCode::invalid_option,
                "gather takes tensors of at most 16 dimensions, not " + std::to_string(gathered.dim()));
  }
  Announcement announcement{.collective = static_cast<uint32_t>(Collective::gather),
                            .type = static_cast<int32_t>(gathered.scalar_type()),
                            .root = static_cast<int32_t>(root),
                            .elements = gathered.numel(),
                            .dimensions = static_cast<uint64_t>(gathered.dim())};
  std::copy(gathered.sizes().begin(), gathered.sizes().end(), announcement.sizes.begin());
  return announcement;
}

at::Tensor room_for(const Announcement& gathered) {
  return at::empty(at::IntArrayRef(gathered.sizes.data(), gathered.dimensions),
                   at::TensorOptions().dtype(static_cast<at::ScalarType>(gathered.type)));
}

Misfit misfit_of(int64_t size, const std::function<const Announcement&(int64_t rank)>& said) {
  const Announcement& first = said(0);
  for (int64_t rank = 1; rank < size; ++rank) {
    const Announcement& other = said(rank);
    if (fit_together(first, other)) continue;
    return {.why = "rank " + std::to_string(rank) + " came with " + described(other) +
                   " where rank 0 came with " + described(first)};
  }
  return {};
}

std::string misplaced_shard(const std::vector<Announcement>& said, int64_t shard_count) {
  std::vector<int64_t> owners(static_cast<size_t>(std::max<int64_t>(shard_count, 0)));
  for (const Announcement& rank : said) {
    for (int64_t shard = rank.sizes[0]; shard < rank.sizes[1] && shard < shard_count; ++shard)
      ++owners[static_cast<size_t>(shard)];
  }
  for (size_t shard = 0; shard < owners.size(); ++shard) {
    if (owners[shard] != 1)
      return "shard " + std::to_string(shard) + " of " + std::to_string(shard_count) + " is on " +
             std::to_string(owners[shard]) + " ranks, not on one";
  }
  return {};
}

FlatList::FlatList(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {
  for (const at::Tensor& tensor : tensors_) {
    const at::Tensor plain = tensor.detach();
    flat_.push_back(plain.is_cpu() ? plain.contiguous() : plain.to(at::kCPU).contiguous());
    elements_ += plain.numel();
  }
}

void FlatList::visit(int64_t begin, int64_t count,
                     const std::function<void(std::byte* piece, int64_t bytes)>& f) const {
  int64_t at = 0;
  for (const at::Tensor& tensor : flat_) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    const int64_t from = std::max(begin - at, int64_t{0});
    const int64_t to = std::min(begin + count - at, bytes);
    if (from < to) f(static_cast<std::byte*>(tensor.data_ptr()) + from, to - from);
    at += bytes;
    if (at >= begin + count) return;
  }
}

void FlatList::copy_out(int64_t begin, int64_t count, std::byte* to) const {
  visit(begin, count, [&](const std::byte* piece, int64_t bytes) {
    std::memcpy(to, piece, static_cast<size_t>(bytes));
    to += bytes;
  });
}

void FlatList::copy_in(int64_t begin, int64_t count, const std::byte* from) const {
  visit(begin, count, [&](std::byte* piece, int64_t bytes) {
    std::memcpy(piece, from, static_cast<size_t>(bytes));
    from += bytes;
  });
}

void FlatList::write_back() const {
  for (size_t i = 0; i < flat_.size(); ++i) {
    if (flat_[i].data_ptr() != tensors_[i].data_ptr()) tensors_[i].detach().copy_(flat_[i]);
  }
}

std::vector<std::pair<at::ScalarType, std::vector<at::Tensor>>> by_type(
    const std::vector<at::Tensor>& tensors) {
  std::vector<std::pair<at::ScalarType, std::vector<at::Tensor>>> parts;
  for (const at::Tensor& tensor : tensors) {
    const auto found = std::find_if(parts.begin(), parts.end(),
                                    [&](const auto& part) { return part.first == tensor.scalar_type(); });
    (found == parts.end() ? parts.emplace_back(tensor.scalar_type(), std::vector<at::Tensor>{}) : *found)
        .second.push_back(tensor);
  }
  if (parts.empty())
    // A rank with an empty list meets the others too.
    parts.emplace_back(at::kFloat, std::vector<at::Tensor>{});
  return parts;
}

TreePlan::TreePlan(const std::vector<Announcement>& said, int64_t shards) : shard_count(shards) {
  for (const Announcement& rank : said) {
    nodes.push_back(whole_nodes({rank.sizes[0], rank.sizes[1]}, shards));
    most_nodes = std::max(most_nodes, nodes.back().size());
    if (!has_vectors(rank)) continue;
    type = static_cast<at::ScalarType>(rank.type);
    elements = rank.elements;
  }
  if (type != at::kFloat && type != at::kDouble)
    throw Error(ErrorCode::invalid_option,
                std::string("reduce_tree takes float or double, not ") + c10::toString(type));
}

}  // namespace lockstep::comm
