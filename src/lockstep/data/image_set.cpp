#include "lockstep/data/image_set.h"

#include <algorithm>
#include <optional>

#include "lockstep/data/internal/parallel.h"
#include "lockstep/data/internal/padding.h"
#include "lockstep/data/internal/read_as.h"
#include "lockstep/data/internal/streamed_copy.h"
#include "lockstep/data/internal/thread_buffer.h"

namespace lockstep::data {
namespace {

enum KeptState : uint8_t { kEmpty, kLoading, kReady };

// The sample's number is added here: the store does not know it and may hold more than the dataset.
template <class Work>
void numbered(const Dataset& dataset, int64_t index, Work&& work) {
  try {
    work();
  } catch (const BadImage& error) {
    throw BadImage(error.source(), error.reason(), BadImage::Position{index + 1, dataset.size()});
  }
}

// From the cache, or decoded and written to it.
void read_through(const RecordFile* cache, const Datastore& store, int64_t index, const ImageFormat& format,
                  std::span<uint8_t> destination) {
  if (cache == nullptr) return read_as(store, index, format, destination);
  const int64_t place = index_in_root(store, index);
  if (cache->read(place, destination)) return;
  read_as(store, index, format, destination);
  cache->write(place, destination);
}

bool lies_in_memory(const Datastore& store, const ImageFormat& format) {
  return store.in_memory() && store.image_size(0) == format.size();
}

void check_kind(const Dataset& dataset, const ImageFormat& format) {
  const Datastore& store = dataset.store();
  const bool sequences = format.kind == SampleKind::sequence;
  if (store.kind() != format.kind) {
    throw Error(ErrorCode::invalid_option,
                sequences ? "the network needs sequences, but the data are images"
                          : "the network needs images, but the data are sequences",
                "\"" + store.source(0) + "\" is the first sample");
  }
  for (int64_t i = 0; sequences && i < store.size(); ++i) {
    const int64_t channels = store.image_size(i).channels;
    if (channels == format.channels) continue;
    throw Error(ErrorCode::invalid_option,
                "sequence \"" + store.source(i) + "\" has " + std::to_string(channels) +
                    " channels, but the network needs " + std::to_string(format.channels));
  }
}

}  // namespace

Dataset root_of(const Dataset& dataset) {
  const auto whole = dataset.store().whole();
  return whole == nullptr ? dataset : root_of(Dataset(whole));
}

int64_t index_in_root(const Datastore& store, int64_t index) {
  const auto whole = store.whole();
  return whole == nullptr ? index : index_in_root(*whole, store.index_in_whole(index));
}

struct ImageSet::State {
  Dataset dataset;
  ImageFormat format;
  std::shared_ptr<const ImageSet> whole;  // the set of a part, which stores nothing itself
  std::shared_ptr<const RecordFile> cache;
  std::shared_ptr<LoadingLine> line;  // to loaders; may be empty
  int64_t image_bytes = 0;
  bool in_memory = false;
  // Memory is not touched before it is written, so its use grows as images are read.
  std::unique_ptr<uint8_t[]> kept;
  std::unique_ptr<std::atomic<uint8_t>[]> states;

  std::span<uint8_t> place(int64_t index) const {
    return {kept.get() + index * image_bytes, static_cast<size_t>(image_bytes)};
  }

  void decode(int64_t index, std::span<uint8_t> destination) const {
    if (line != nullptr && line->take(index, destination)) return;
    numbered(dataset, index, [&] { read_through(cache.get(), dataset.store(), index, format, destination); });
  }

  // The first reader of a sample stores it; a reader that comes meanwhile decodes the sample itself instead
  // of waiting.
  bool keep(int64_t index) const {
    std::atomic<uint8_t>& state = states[static_cast<size_t>(index)];
    if (state.load(std::memory_order_acquire) == kReady) return true;
    uint8_t expected = kEmpty;
    if (!state.compare_exchange_strong(expected, kLoading, std::memory_order_acquire))
      return expected == kReady;
    try {
      decode(index, place(index));
    } catch (...) {
      state.store(kEmpty, std::memory_order_release);
      throw;
    }
    state.store(kReady, std::memory_order_release);
    return true;
  }
};

bool ImageSet::keeps(const Dataset& dataset, const ImageFormat& format, int64_t most_bytes) {
  return format.kind == SampleKind::sequence || lies_in_memory(dataset.store(), format) ||
         format.size().bytes() <= most_bytes / dataset.size();
}

ImageSet::ImageSet(Dataset dataset, ImageFormat format, int64_t most_bytes,
                   std::shared_ptr<const RecordFile> cache)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.dataset = std::move(dataset);
  state.format = format;
  state.cache = std::move(cache);
  const bool sequences = format.kind == SampleKind::sequence;
  state.image_bytes = format.size().bytes() * (sequences ? static_cast<int64_t>(sizeof(float)) : 1);
  if (state.dataset.empty()) return;
  check_kind(state.dataset, format);
  const Datastore& store = state.dataset.store();
  if (sequences) {
    state.in_memory = true;
    return;
  }
  state.in_memory = lies_in_memory(store, format);
  if (state.in_memory || !keeps(state.dataset, format, most_bytes)) return;
  const int64_t count = store.size();
  state.kept = std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(count * state.image_bytes));
  state.states = std::make_unique<std::atomic<uint8_t>[]>(static_cast<size_t>(count));
}

ImageSet::ImageSet(Dataset part, std::shared_ptr<const ImageSet> whole) : state_(std::make_unique<State>()) {
  state_->dataset = std::move(part);
  state_->format = whole->format();
  state_->image_bytes = whole->image_bytes();
  state_->whole = std::move(whole);
  if (state_->dataset.empty()) return;
  const auto store = state_->dataset.store().whole();
  if (store == nullptr || store->size() != state_->whole->size())
    throw Error(ErrorCode::internal, "a part of an image set was made from other images");
}

ImageSet::~ImageSet() = default;

int64_t ImageSet::size() const { return state_->dataset.size(); }
const ImageFormat& ImageSet::format() const { return state_->format; }
const Dataset& ImageSet::dataset() const { return state_->dataset; }
int64_t ImageSet::label(int64_t index) const { return state_->dataset.store().label(index); }
int64_t ImageSet::parallel_reads() const {
  return state_->dataset.empty() ? 0 : state_->dataset.store().parallel_reads();
}
int64_t ImageSet::image_bytes() const { return state_->image_bytes; }
bool ImageSet::kept() const {
  return state_->whole != nullptr ? state_->whole->kept() : state_->in_memory || state_->kept != nullptr;
}
const RecordFile* ImageSet::cache() const {
  return state_->whole != nullptr ? state_->whole->cache() : state_->cache.get();
}
int64_t ImageSet::kept_bytes() const { return state_->kept == nullptr ? 0 : size() * image_bytes(); }

void ImageSet::load_from(std::shared_ptr<LoadingLine> line) const {
  if (state_->whole != nullptr) return state_->whole->load_from(std::move(line));
  if (state_->format.kind == SampleKind::image) state_->line = std::move(line);
}

void ImageSet::expect(std::span<const int64_t> indices) const {
  const State& state = *state_;
  std::vector<int64_t> wanted;
  if (state.whole != nullptr) {
    if (state.whole->state_->line == nullptr) return;
    for (const int64_t index : indices) wanted.push_back(state.dataset.store().index_in_whole(index));
    return state.whole->expect(wanted);
  }
  if (state.line == nullptr || state.in_memory) return;
  for (const int64_t index : indices) {
    if (state.kept == nullptr || state.states[static_cast<size_t>(index)] == kEmpty) wanted.push_back(index);
  }
  state.line->expect(wanted);
}

void ImageSet::decode(int64_t index_in_whole, std::span<uint8_t> destination) const {
  const State& state = *state_;
  state.whole != nullptr ? state.whole->decode(index_in_whole, destination)
                         : state.decode(index_in_whole, destination);
}

void ImageSet::read(int64_t index, std::span<uint8_t> destination) const {
  const State& state = *state_;
  if (state.whole != nullptr) {
    return numbered(state.dataset, index,
                    [&] { state.whole->read(state.dataset.store().index_in_whole(index), destination); });
  }
  if (state.format.kind == SampleKind::sequence)
    return read_padded(state.dataset.store(), index, state.format.padding, destination);
  if (state.kept == nullptr || !state.keep(index)) return state.decode(index, destination);
  streamed_copy(state.place(index).data(), destination);
}

void for_each_sample(int64_t count, int64_t threads, const std::function<void(int64_t)>& work) {
  for_each_index(count, threads, work);
}

std::pair<Dataset, std::vector<BadSample>> without_bad_samples(
    const Dataset& dataset, const ImageFormat& format, int64_t threads,
    const std::shared_ptr<const RecordFile>& cache) {
  const int64_t count = dataset.size();
  std::vector<std::optional<std::string>> reasons(static_cast<size_t>(count));
  const int64_t readers = count == 0 ? 1 : std::max(threads, dataset.store().parallel_reads());
  for_each_index(count, readers, [&](int64_t i) {
    thread_local std::vector<uint8_t> image;
    image.resize(static_cast<size_t>(format.size().bytes()));
    try {
      read_through(cache.get(), dataset.store(), i, format, image);
    } catch (const BadImage& error) {
      reasons[static_cast<size_t>(i)] = error.reason();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::corrupt_data && error.code() != ErrorCode::not_found &&
          error.code() != ErrorCode::io)
        throw;
      reasons[static_cast<size_t>(i)] = error.message();
    }
  });
  std::vector<int64_t> good;
  std::vector<BadSample> bad;
  for (int64_t i = 0; i < count; ++i) {
    const auto& reason = reasons[static_cast<size_t>(i)];
    if (reason) {
      bad.push_back({dataset.store().source(i), *reason});
    } else {
      good.push_back(i);
    }
  }
  if (bad.empty()) return {dataset, {}};
  return {dataset.subset(std::move(good)), std::move(bad)};
}

}  // namespace lockstep::data
