#include "lockstep/data/survey.h"

#include <algorithm>
#include <optional>

#include "lockstep/base/seed.h"
#include "lockstep/base/share.h"
#include "lockstep/data/internal/parallel.h"

namespace lockstep::data {
namespace {

// One sample of each of equal parts. At even distances, of a grey and a coloured image in turn only the grey
// ones could be seen.
std::vector<int64_t> spread_out(int64_t count, int64_t most) {
  std::vector<int64_t> chosen;
  const int64_t parts = std::min(count, std::max<int64_t>(most, 1));
  for (int64_t i = 0; i < parts; ++i) {
    const Range part = part_of(count, parts, i);
    Random random(seed_of({static_cast<uint64_t>(count), static_cast<uint64_t>(i)}));
    chosen.push_back(part.begin + static_cast<int64_t>(random.below(static_cast<uint64_t>(part.count()))));
  }
  return chosen;
}

std::vector<int64_t> samples_to_look_at(const Dataset& dataset, int64_t most) {
  const int64_t count = dataset.size();
  std::vector<int64_t> chosen = spread_out(count, most);
  if (static_cast<int64_t>(chosen.size()) == count) return chosen;
  std::vector<bool> seen(dataset.classes().size() + 1);
  for (int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<size_t>(dataset.store().label(i) + 1);
    if (!seen[label]) chosen.push_back(i);
    seen[label] = true;
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

// What look(index) returns for each of these samples; nothing where it cannot be read.
template <class Look>
auto look_at(const std::vector<int64_t>& samples, int64_t threads, const Look& look) {
  std::vector<std::optional<decltype(look(0))>> seen(samples.size());
  for_each_index(static_cast<int64_t>(samples.size()), std::max<int64_t>(1, threads), [&](int64_t i) {
    const auto place = static_cast<size_t>(i);
    try {
      seen[place] = look(samples[place]);
    } catch (const Error& error) {
      // A server that does not answer says nothing about the image.
      if (error.code() == ErrorCode::communication || error.code() == ErrorCode::invalid_option ||
          error.code() == ErrorCode::cancelled)
        throw;
    }
  });
  return seen;
}

// Dark and light are within an eighth of the range of the image's tones, for a scan has noise. The rarer of
// the two is not much rarer than what is between them: a galaxy on a dark sky is no drawing.
bool is_drawing(const Image& image) {
  const auto [least, most] = std::minmax_element(image.pixels.begin(), image.pixels.end());
  const int near = (*most - *least) / 8;
  int64_t dark = 0, light = 0;
  for (const uint8_t pixel : image.pixels) {
    if (pixel <= *least + near) {
      ++dark;
    } else if (pixel >= *most - near) {
      ++light;
    }
  }
  const auto all = static_cast<int64_t>(image.pixels.size());
  const int64_t between = all - dark - light;
  return 5 * between <= all && 2 * std::min(dark, light) >= between;
}

// A thousandth of the pixels may be the noise of a scan or of JPEG.
bool has_colours(const Image& image) {
  constexpr int kGreyEnough = 16;  // of 255, between the channels
  if (image.channels != 3) return false;
  const auto area = static_cast<size_t>(image.height * image.width);
  int64_t coloured = 0;
  for (size_t i = 0; i < area; ++i) {
    const auto [least, most] =
        std::minmax({image.pixels[i], image.pixels[area + i], image.pixels[2 * area + i]});
    coloured += most - least > kGreyEnough ? 1 : 0;
  }
  return 1000 * coloured > static_cast<int64_t>(area);
}

int64_t middle(std::vector<int64_t> numbers) {
  const auto at = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), at, numbers.end());
  return *at;
}

SizeSurvey summary(const std::vector<std::optional<ImageSize>>& sizes) {
  SizeSurvey survey;
  std::vector<int64_t> heights, widths;
  for (const auto& size : sizes) {
    if (!size) {
      ++survey.unreadable;
      continue;
    }
    survey.any_colour |= size->channels == 3;
    heights.push_back(size->height);
    widths.push_back(size->width);
    survey.one_size &= size->height == heights.front() && size->width == widths.front();
  }
  if (!heights.empty())
    survey.typical = {survey.any_colour ? 3 : 1, middle(std::move(heights)), middle(std::move(widths))};
  survey.looked_at = static_cast<int64_t>(sizes.size());
  return survey;
}

}  // namespace

bool are_drawings(const Dataset& dataset) {
  const Datastore& store = dataset.store();
  const auto seen = look_at(spread_out(dataset.size(), kPixelsLookedAt), store.parallel_reads(),
                            [&](int64_t index) { return is_drawing(store.read(index)); });
  const auto drawings = std::count(seen.begin(), seen.end(), true);
  return drawings > std::count(seen.begin(), seen.end(), false);
}

bool have_colours(const Dataset& dataset) {
  if (dataset.empty()) return true;
  const Datastore& store = dataset.store();
  const std::vector<int64_t> all = spread_out(dataset.size(), kPixelsLookedAt);
  bool any_read = false;
  for (const auto& [begin, end] :
       {std::pair(all.begin(), all.begin() + 1), std::pair(all.begin() + 1, all.end())}) {
    const auto seen = look_at({begin, end}, store.parallel_reads(),
                              [&](int64_t index) { return has_colours(store.read(index)); });
    if (std::count(seen.begin(), seen.end(), true) > 0) return true;
    any_read |= std::count(seen.begin(), seen.end(), false) > 0;
  }
  return !any_read;
}

ImageFormat default_format(const SizeSurvey& survey) {
  const bool keeps_size =
      survey.one_size || std::max(survey.typical.height, survey.typical.width) <= kSmallSide;
  return {survey.any_colour ? 3 : 1, keeps_size ? survey.typical.height : kPhotographSide,
          keeps_size ? survey.typical.width : kPhotographSide};
}

SizeSurvey survey_sizes(const Dataset& dataset, int64_t threads, int64_t most) {
  if (dataset.empty()) throw Error(ErrorCode::invalid_option, "the dataset has no samples");
  const Datastore& store = dataset.store();
  if (store.in_memory()) {
    const ImageSize size = store.image_size(0);
    return {.typical = size, .any_colour = size.channels == 3, .looked_at = dataset.size()};
  }
  const std::vector<int64_t> chosen = samples_to_look_at(dataset, most);
  const auto sizes = look_at(chosen, std::max(threads, store.parallel_reads()),
                             [&](int64_t index) { return store.image_size(index); });
  SizeSurvey survey = summary(sizes);
  survey.looked_at_all = survey.looked_at == dataset.size();
  if (survey.unreadable == survey.looked_at) store.image_size(chosen.front());
  return survey;
}

ImageFormat format_of(const Dataset& dataset) {
  if (dataset.empty() || dataset.store().kind() == SampleKind::image)
    return default_format(survey_sizes(dataset, /*threads=*/1));
  ImageFormat format{.channels = dataset.store().image_size(0).channels,
                     .height = 1,
                     .width = 1,
                     .kind = SampleKind::sequence};
  for (int64_t i = 0; i < dataset.size(); ++i)
    format.width = std::max(format.width, dataset.store().image_size(i).width);
  return format;
}

}  // namespace lockstep::data
