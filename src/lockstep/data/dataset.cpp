#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "lockstep/base/counted.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/seed.h"
#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/data/datastore.h"

namespace lockstep::data {
namespace {

std::string decode_message(const std::string& source, const std::string& reason,
                           const std::optional<BadImage::Position>& place) {
  std::string message = "cannot decode \"" + source + "\"";
  if (place) message += " (sample " + with_commas(place->number) + " of " + with_commas(place->count) + ")";
  return message + ": " + reason;
}

// Selected samples of another datastore.
class Subset : public Datastore {
 public:
  Subset(std::shared_ptr<const Datastore> whole, std::vector<int64_t> indices)
      : whole_(std::move(whole)), indices_(std::move(indices)) {
    for (const int64_t index : indices_) {
      if (index < 0 || index >= whole_->size()) {
        throw Error(ErrorCode::invalid_option, "sample " + std::to_string(index) +
                                                   " is outside a dataset of " +
                                                   counted(whole_->size(), "sample"));
      }
    }
  }
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  const std::vector<std::string>& classes() const override { return whole_->classes(); }
  int64_t label(int64_t index) const override { return whole_->label(at(index)); }
  std::string source(int64_t index) const override { return whole_->source(at(index)); }
  ImageSize image_size(int64_t index) const override { return whole_->image_size(at(index)); }
  void read_to(int64_t index, const PixelSink& sink) const override { whole_->read_to(at(index), sink); }
  bool in_memory() const override { return whole_->in_memory(); }
  int64_t parallel_reads() const override { return whole_->parallel_reads(); }
  SampleKind kind() const override { return whole_->kind(); }
  bool labels_time_steps() const override { return whole_->labels_time_steps(); }
  std::span<const int64_t> time_step_labels(int64_t index) const override {
    return whole_->time_step_labels(at(index));
  }
  bool continues(int64_t index) const override { return whole_->continues(at(index)); }
  uint64_t listing_hash() const override {
    return hash_of(std::as_bytes(std::span(indices_)), whole_->listing_hash());
  }
  uint64_t content_hash() const override { return whole_->content_hash(); }
  std::string identity() const override {
    const std::string identity = whole_->identity();
    return identity.empty() ? identity
                            : identity + "/" +
                                  as_hex(hash_of(std::as_bytes(std::span(indices_)),
                                                 static_cast<uint64_t>(indices_.size())));
  }
  std::shared_ptr<const Datastore> whole() const override { return whole_; }
  int64_t index_in_whole(int64_t index) const override { return at(index); }

 private:
  int64_t at(int64_t index) const { return indices_.at(static_cast<size_t>(index)); }

  std::shared_ptr<const Datastore> whole_;
  std::vector<int64_t> indices_;
};

int64_t first_part_count(int64_t count, double share) {
  if (count < 2) return count;
  return std::clamp<int64_t>(std::llround(share * static_cast<double>(count)), 1, count - 1);
}

using SamplesOfLabels = std::map<int64_t, std::vector<int64_t>>;

SamplesOfLabels samples_of_labels(const Datastore& store) {
  SamplesOfLabels of_label;
  for (int64_t i = 0; i < store.size(); ++i) of_label[store.label(i)].push_back(i);
  return of_label;
}

struct TwoParts {
  std::vector<int64_t> first, second;
};

// For each label, the first part takes as many samples as taken(number of its samples) returns.
TwoParts split_labels(const SamplesOfLabels& samples, int64_t seed,
                      const std::function<int64_t(int64_t)>& taken) {
  TwoParts parts;
  for (const auto& [label, indices] : samples) {
    const auto count = static_cast<int64_t>(indices.size());
    const auto drawn =
        permutation(count, seed_of({static_cast<uint64_t>(seed), static_cast<uint64_t>(label)}));
    const int64_t first_count = taken(count);
    for (int64_t i = 0; i < count; ++i) {
      (i < first_count ? parts.first : parts.second)
          .push_back(indices[static_cast<size_t>(drawn[static_cast<size_t>(i)])]);
    }
  }
  std::sort(parts.first.begin(), parts.first.end());
  std::sort(parts.second.begin(), parts.second.end());
  return parts;
}

// Names the label with the fewest samples, so that the hint holds for all.
void check_labels_have_more(const SamplesOfLabels& samples, const std::vector<std::string>& classes,
                            int64_t count) {
  const auto fewest = std::min_element(samples.begin(), samples.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  if (fewest == samples.end() || std::ssize(fewest->second) > count) return;
  const int64_t label = fewest->first, has = std::ssize(fewest->second);
  const std::string name = label >= 0 && label < std::ssize(classes)
                               ? "class \"" + classes[static_cast<size_t>(label)] + "\""
                               : "label " + std::to_string(label);
  throw Error(ErrorCode::invalid_option,
              "cannot take " + counted(count, "sample") + " of each class for a split: " + name + " has " +
                  with_commas(has) + ", and at least one must remain",
              has > 1 ? "use at most " + with_commas(has - 1) : "add samples of that class");
}

}  // namespace

BadImage::BadImage(std::string source, std::string reason, std::optional<Position> place)
    : Error(ErrorCode::corrupt_data, decode_message(source, reason, place),
            "remove the file, or add --on-bad-sample skip"),
      source_(std::move(source)),
      reason_(std::move(reason)) {}

Image Datastore::read(int64_t index) const {
  Image image;
  read_to(index, [&](const ImageSize& size) {
    image = {size.channels, size.height, size.width, std::vector<uint8_t>(static_cast<size_t>(size.bytes()))};
    return std::span(image.pixels);
  });
  return image;
}

const Datastore& Dataset::store() const {
  if (store_ == nullptr)
    throw Error(ErrorCode::invalid_option, "the dataset is empty: it was made by data::Dataset()",
                "open one, for example with data::ImageFolder, or ask empty() first");
  return *store_;
}

const std::vector<std::string>& Dataset::classes() const {
  static const std::vector<std::string> none;
  return store_ == nullptr ? none : store_->classes();
}

Dataset Dataset::subset(std::vector<int64_t> indices) const {
  if (store_ == nullptr) return {};
  return Dataset(std::make_shared<Subset>(store_, std::move(indices)));
}

Dataset Dataset::partition(int64_t parts, int64_t index) const {
  if (parts < 1 || index < 0 || index >= parts) {
    throw Error(ErrorCode::invalid_option,
                "cannot take part " + std::to_string(index) + " of " + std::to_string(parts),
                "parts are numbered from 0");
  }
  const Range range = part_of(size(), parts, index);
  std::vector<int64_t> indices(static_cast<size_t>(range.count()));
  std::iota(indices.begin(), indices.end(), range.begin);
  return subset(std::move(indices));
}

Dataset Dataset::shuffle(int64_t seed) const {
  return subset(permutation(size(), seed_of({static_cast<uint64_t>(seed)})));
}

std::pair<Dataset, Dataset> Dataset::split(double share, SplitOptions options) const {
  if (!(share > 0 && share < 1)) {
    throw Error(ErrorCode::invalid_option,
                "the share of a split cannot be " + shortest(share) + ": it must be above 0 and below 1");
  }
  if (store_ == nullptr) return {};
  auto [first, second] = split_labels(samples_of_labels(*store_), options.seed,
                                      [&](int64_t count) { return first_part_count(count, share); });
  return {subset(std::move(first)), subset(std::move(second))};
}

std::pair<Dataset, Dataset> Dataset::split_by_count(int64_t count, SplitOptions options) const {
  if (count < 1)
    throw Error(ErrorCode::invalid_option,
                "a split cannot take " + std::to_string(count) + " samples of each class", "use 1 or more");
  if (store_ == nullptr) return {};
  const SamplesOfLabels samples = samples_of_labels(*store_);
  check_labels_have_more(samples, classes(), count);
  auto [first, second] = split_labels(samples, options.seed, [&](int64_t) { return count; });
  return {subset(std::move(first)), subset(std::move(second))};
}

// Samples are dealt to the folds in turn, label by label.
std::pair<Dataset, Dataset> Dataset::split_fold(int64_t count, int64_t index, SplitOptions options) const {
  if (count < 2 || count > size() || index < 0 || index >= count)
    throw Error(ErrorCode::invalid_option,
                "cannot take fold " + std::to_string(index + 1) + " of " + with_commas(count) + " folds of " +
                    counted(size(), "sample"),
                "use from 2 folds to as many as there are samples, numbered from 1");
  std::vector<int64_t> rest, fold;
  int64_t dealt = 0;
  for (const auto& [label, indices] : samples_of_labels(*store_)) {
    const auto drawn = permutation(
        std::ssize(indices), seed_of({static_cast<uint64_t>(options.seed), static_cast<uint64_t>(label)}));
    for (const int64_t position : drawn)
      (dealt++ % count == index ? fold : rest).push_back(indices[static_cast<size_t>(position)]);
  }
  std::sort(rest.begin(), rest.end());
  std::sort(fold.begin(), fold.end());
  return {subset(std::move(rest)), subset(std::move(fold))};
}

}  // namespace lockstep::data
