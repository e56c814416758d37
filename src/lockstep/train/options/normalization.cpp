#include "lockstep/train/options/normalization.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/stop_scope.h"
#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

std::optional<double> plain_number(std::string_view text) {
  const auto value = parse_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

// "0.5" or "123/255"
std::optional<double> number_in(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return plain_number(text);
  const auto above = plain_number(std::string_view(text).substr(0, slash)),
             below = plain_number(std::string_view(text).substr(slash + 1));
  return above && below && *below != 0 ? std::optional(*above / *below) : std::nullopt;
}

[[noreturn]] void refuse(const std::string& text, int64_t channels) {
  throw Error(ErrorCode::invalid_option,
              "option --normalize cannot be \"" + text +
                  "\": it must be none, mean-std, imagenet (with three channels), or MEAN,DEVIATION once or "
                  "for each of " +
                  std::to_string(channels) + " channels, deviations above 0",
              "for example --normalize 0.5,0.25; values are of pixels / 255");
}

}  // namespace

Normalization parse_normalization(const std::string& text, int64_t channels) {
  if (text == "none") return {};
  if (text == "imagenet" && channels == 3)
    return {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};  // torchvision's, of all its trained weights
  std::vector<double> numbers;
  for (const std::string& part : split(text, ',')) {
    const auto number = number_in(part);
    if (!number) refuse(text, channels);
    numbers.push_back(*number);
  }
  const auto count = static_cast<size_t>(channels);
  if (numbers.size() != 2 && numbers.size() != 2 * count) refuse(text, channels);
  Normalization normalization;
  for (size_t c = 0; c < count; ++c) {
    const size_t at = numbers.size() == 2 ? 0 : 2 * c;
    if (numbers[at + 1] <= 0) refuse(text, channels);
    normalization.mean.push_back(numbers[at]);
    normalization.deviation.push_back(numbers[at + 1]);
  }
  return normalization;
}

Normalization measure_normalization(const data::ImageSet& images, int64_t threads, std::stop_token stop) {
  const auto channels = static_cast<size_t>(images.format().channels);
  const auto plane = static_cast<size_t>(images.format().height * images.format().width);
  std::vector<uint64_t> sums(channels), squares(channels);
  std::mutex mutex;
  // Whole numbers, so the order in which threads add them changes nothing.
  data::for_each_sample(images.size(), std::max(threads, images.parallel_reads()), [&](int64_t i) {
    if (stop.stop_requested())
      throw Error(ErrorCode::cancelled,
                  "stopped while the mean and deviation of the images were measured; no step was made");
    thread_local std::vector<uint8_t> image;
    image.resize(static_cast<size_t>(images.image_bytes()));
    const StopScope scope(stop);
    images.read(i, image);
    thread_local std::vector<uint64_t> own_sums, own_squares;
    own_sums.assign(channels, 0);
    own_squares.assign(channels, 0);
    for (size_t c = 0; c < channels; ++c) {
      for (size_t p = 0; p < plane; ++p) {
        const uint64_t value = image[c * plane + p];
        own_sums[c] += value;
        own_squares[c] += value * value;
      }
    }
    const std::lock_guard lock(mutex);
    for (size_t c = 0; c < channels; ++c) {
      sums[c] += own_sums[c];
      squares[c] += own_squares[c];
    }
  });
  Normalization normalization;
  const double count = static_cast<double>(plane) * static_cast<double>(images.size()) * 255;
  for (size_t c = 0; c < channels; ++c) {
    const double mean = static_cast<double>(sums[c]) / count;
    const double variance = static_cast<double>(squares[c]) / (count * 255) - mean * mean;
    normalization.mean.push_back(mean);
    normalization.deviation.push_back(variance > 0 ? std::sqrt(variance) : 1.0);
  }
  return normalization;
}

Normalization measure_sequences(const data::ImageSet& sequences, std::stop_token stop) {
  const data::Datastore& store = sequences.dataset().store();
  const auto channels = static_cast<size_t>(sequences.format().channels);
  std::vector<double> sums(channels), squares(channels);
  double count = 0;
  std::vector<float> values;
  for (int64_t i = 0; i < store.size(); ++i) {
    if (stop.stop_requested())
      throw Error(ErrorCode::cancelled,
                  "stopped while the mean and deviation of the sequences were measured; no step was made");
    const auto steps = static_cast<size_t>(store.image_size(i).width);
    values.resize(channels * steps);
    sequences.read(i, {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(float)});
    for (size_t at = 0; at < values.size(); ++at) {
      sums[at / steps] += values[at];
      squares[at / steps] += static_cast<double>(values[at]) * values[at];
    }
    count += static_cast<double>(steps);
  }
  Normalization normalization;
  for (size_t c = 0; c < channels; ++c) {
    const double mean = sums[c] / count;
    const double variance = squares[c] / count - mean * mean;
    normalization.mean.push_back(mean);
    normalization.deviation.push_back(variance > 0 ? std::sqrt(variance) : 1.0);
  }
  return normalization;
}

}  // namespace lockstep::train
