#include "lockstep/data/centre.h"

#include <algorithm>
#include <memory>

#include "lockstep/data/internal/read_as.h"

namespace lockstep::data {
namespace {

std::string size_text(int64_t height, int64_t width) {
  return std::to_string(height) + "x" + std::to_string(width);
}

class Centres : public Datastore {
 public:
  Centres(Dataset dataset, const ImageFormat& format, const ImageFormat& larger)
      : dataset_(std::move(dataset)), format_(format), larger_(larger) {}

  int64_t size() const override { return dataset_.size(); }
  const std::vector<std::string>& classes() const override { return dataset_.classes(); }
  int64_t label(int64_t index) const override { return dataset_.store().label(index); }
  std::string source(int64_t index) const override { return dataset_.store().source(index); }
  ImageSize image_size(int64_t) const override { return format_.size(); }
  int64_t parallel_reads() const override { return dataset_.store().parallel_reads(); }
  uint64_t listing_hash() const override { return dataset_.store().listing_hash(); }
  uint64_t content_hash() const override { return dataset_.store().content_hash(); }

  std::string identity() const override {
    const std::string inner = dataset_.store().identity();
    if (inner.empty()) return inner;
    return "centre " + size_text(format_.height, format_.width) + "x" + std::to_string(format_.channels) +
           " of " + size_text(larger_.height, larger_.width) + " by " +
           enum_names(larger_.resize)[static_cast<size_t>(larger_.resize)] + " of " + inner;
  }

  void read_to(int64_t index, const PixelSink& sink) const override {
    thread_local std::vector<uint8_t> fitted;
    fitted.resize(static_cast<size_t>(larger_.size().bytes()));
    read_as(dataset_.store(), index, larger_, fitted);
    cut_centre(fitted, larger_, sink(format_.size()), format_);
  }

 private:
  Dataset dataset_;
  ImageFormat format_;
  ImageFormat larger_;
};

}  // namespace

void check_part(const ImageFormat& part, const ImageFormat& whole) {
  if (part.height <= whole.height && part.width <= whole.width) return;
  throw Error(ErrorCode::invalid_option, "cannot cut an image of " + size_text(part.height, part.width) +
                                             " out of one of " + size_text(whole.height, whole.width));
}

void cut_part(std::span<const uint8_t> whole, const ImageFormat& from, int64_t top, int64_t left,
              std::span<uint8_t> part, const ImageFormat& to) {
  for (int64_t row = 0; row < to.channels * to.height; ++row) {
    const int64_t channel = row / to.height, y = row % to.height;
    const uint8_t* first = whole.data() + (channel * from.height + top + y) * from.width + left;
    std::copy(first, first + to.width, part.data() + row * to.width);
  }
}

void cut_centre(std::span<const uint8_t> whole, const ImageFormat& from, std::span<uint8_t> part,
                const ImageFormat& to) {
  cut_part(whole, from, (from.height - to.height) / 2, (from.width - to.width) / 2, part, to);
}

Dataset cut_out_centre(const Dataset& dataset, const ImageFormat& format,
                       const std::vector<int64_t>& resize_to) {
  if (dataset.empty()) return dataset;
  const ImageFormat larger = format.sized(resize_to.at(0), resize_to.at(1));
  check_part(format, larger);
  return Dataset(std::make_shared<Centres>(dataset, format, larger));
}

}  // namespace lockstep::data
