#include "lockstep/data/internal/shard_layout.h"

#include <algorithm>
#include <cstddef>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

// The replicas of a sampler also have equal parts of the last mini-batch.
int64_t shard_size_of(const QueueOptions& options, int64_t count) {
  return options.order.sampler_replicas > 0 ? count / options.order.sampler_replicas : options.shard_size;
}

}  // namespace

int64_t shards_of(const QueueOptions& options, int64_t count) {
  if (options.shard_size == 0) return used_shards(options.shards, count);
  const int64_t size = shard_size_of(options, count);
  const bool single = size > 1 && count > 1 && count % size == 1;
  return divided_up(count, size) - single;
}

Range shard_range(const QueueOptions& options, int64_t count, int64_t shard_count, int64_t index) {
  if (options.shard_size == 0) return part_of(count, shard_count, index);
  const int64_t size = shard_size_of(options, count), begin = index * size;
  return {begin, index + 1 == shard_count ? count : begin + size};
}

Range owned_shards(const QueueOptions& options, int64_t shard_count, Share share) {
  const Deal deal{options.ranks, share.size, options.rank_loads};
  if (options.shard_size == 0) return deal.of_worker(shard_count, share.rank);
  const Range range = deal.of_worker(shards_of(options, options.mini_batch_size), share.rank);
  return {std::min(range.begin, shard_count), std::min(range.end, shard_count)};
}

std::vector<Shard> cut_into_shards(const Shard& whole, Range owned, const QueueOptions& options,
                                   const Batch& batch) {
  std::vector<Shard> shards;
  const auto part = [](const at::Tensor& tensor, Range rows) {
    return tensor.defined() ? tensor.narrow(0, rows.begin, rows.count()) : at::Tensor();
  };
  const int64_t first = shard_range(options, batch.global_count, batch.shard_count, owned.begin).begin;
  for (int64_t index = owned.begin; index < owned.end; ++index) {
    const Range range = shard_range(options, batch.global_count, batch.shard_count, index);
    const Range rows{range.begin - first, range.end - first};
    shards.push_back({.index = index,
                      .first = range.begin,
                      .images = part(whole.images, rows),
                      .target = part(whole.target, rows),
                      .count = rows.count(),
                      .lengths = part(whole.lengths, rows),
                      .samples = part(whole.samples, rows),
                      .continues = part(whole.continues, rows),
                      .padded_left = whole.padded_left,
                      .mixed_target = part(whole.mixed_target, rows),
                      .target_share = part(whole.target_share, rows),
                      .class_weights = whole.class_weights});
  }
  return shards;
}

Shard joined(std::span<const Shard> shards) {
  const Shard& first = shards.front();
  Shard whole{.index = first.index, .first = first.first};
  for (const Shard& shard : shards) {
    const auto follows = [&](const at::Tensor& tensor, const at::Tensor& begin) {
      return static_cast<const std::byte*>(tensor.const_data_ptr()) ==
             static_cast<const std::byte*>(begin.const_data_ptr()) +
                 whole.count * begin.stride(0) * begin.element_size();
    };
    const bool plain = !shard.input.defined() && !shard.lengths.defined() && !shard.samples.defined() &&
                       !shard.mixed_target.defined() && !shard.class_weights.defined();
    if (!plain || !follows(shard.images, first.images) || !follows(shard.target, first.target)) {
      throw Error(ErrorCode::internal,
                  "shard " + std::to_string(shard.index) + " does not follow the previous one in memory");
    }
    whole.count += shard.count;
  }
  const auto longer = [&](const at::Tensor& tensor) {
    std::vector<int64_t> sizes = tensor.sizes().vec();
    sizes.front() = whole.count;
    return tensor.as_strided(sizes, tensor.strides());
  };
  whole.images = longer(first.images);
  whole.target = longer(first.target);
  return whole;
}

}  // namespace lockstep::data
