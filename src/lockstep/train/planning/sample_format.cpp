#include "lockstep/train/planning/sample_format.h"

#include <algorithm>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/centre.h"
#include "lockstep/data/survey.h"
#include "lockstep/train/options/image_size.h"

namespace lockstep::train {
namespace {

std::string size_text(int64_t height, int64_t width) {
  return std::to_string(height) + "x" + std::to_string(width);
}

std::string resize_text(const data::ImageFormat& format) { return describe_detail::as_text(format.resize); }

// A mean and a deviation for each of three colours.
bool normalizes_three_channels(const std::string& normalize) {
  return normalize == "imagenet" || std::count(normalize.begin(), normalize.end(), ',') == 5;
}

std::string reason_of_common_size(const data::ImageFormat& format, const std::string& examined) {
  constexpr int64_t kSide = data::kPhotographSide;
  const int64_t times = format.height * format.width / (kSide * kSide);
  return "the size of " + examined +
         (times > 1
              ? "; " + std::to_string(times) + " times the work of --image-size " + size_text(kSide, kSide)
              : "");
}

std::string reason_of_no_colours(int64_t image_count) {
  if (image_count <= data::kPixelsLookedAt) return "the images have three channels, but no colours";
  return "three channels, but no colours in the " + std::to_string(data::kPixelsLookedAt) +
         " images that were looked at; else: --color rgb";
}

std::string note_of_no_colours(int64_t image_count) {
  if (image_count <= data::kPixelsLookedAt) return "";
  return "images are read as grey, because " + std::to_string(data::kPixelsLookedAt) +
         " of them were looked at and have no colours; if others have, begin the run with --color rgb";
}

}  // namespace

FormatChoice choose_image_format(const data::Dataset& train, const Options& options,
                                 const ThisMachine& machine, bool has_own_network) {
  const data::SizeSurvey survey = data::survey_sizes(train, machine.inventory.cores);
  const bool wants_channels_of_files =
      has_own_network || !options.weights.empty() || normalizes_three_channels(options.normalize);
  const bool colour = options.color == Color::rgb || (options.color == Color::auto_ && survey.any_colour &&
                                                      (wants_channels_of_files || data::have_colours(train)));
  FormatChoice choice{.format = data::default_format(survey)};
  data::ImageFormat& format = choice.format;
  format.channels = colour ? 3 : 1;
  format.resize = options.resize;
  format.decode = options.decode;
  if (format.decode == data::Decode::gpu)
    format.jpeg_decoder = open_jpeg_decoder(machine.place_any_shards(options));
  const std::string examined = survey.looked_at_all
                                   ? "all images"
                                   : "the " + with_commas(survey.looked_at) + " images that were examined";
  if (options.image_size != "auto") {
    std::tie(format.height, format.width) = parse_size("image-size", options.image_size);
    choice.size_reason = "asked for; other sizes: " + resize_text(format);
  } else if (survey.one_size) {
    choice.size_reason = reason_of_common_size(format, examined);
  } else {
    choice.size_reason =
        "different sizes among " + examined + ", so they are resized (" + resize_text(format) + ")";
  }
  choice.color_reason = options.color != Color::auto_ ? "asked for"
                        : colour                      ? "there are colour images"
                        : survey.any_colour           ? reason_of_no_colours(train.size())
                                                      : "no colour image among " + examined;
  if (options.color == Color::auto_ && !colour && survey.any_colour)
    choice.color_note = note_of_no_colours(train.size());
  return choice;
}

FormatChoice stream_format(const data::Dataset& outline) {
  const data::ImageSize size = outline.store().image_size(0);
  const std::string reason = "as the iterator returns them";
  return {{size.channels, size.height, size.width}, reason, reason};
}

std::vector<int64_t> resolve_resize_to(const Options& options, const DataPlan& data) {
  if (options.resize_to.empty()) {
    if (!data.augment.random_crop) return {};
    throw Error(
        ErrorCode::invalid_option,
        "--augment random-crop cuts a part out of larger images, but there is no --resize-to that makes them "
        "larger",
        "for example --resize-to 256x256 --image-size 224x224; shift crops padded images instead");
  }
  const auto [height, width] = parse_size("resize-to", options.resize_to);
  if (options.image_size == "auto")
    throw Error(ErrorCode::invalid_option, "--resize-to needs --image-size, the size that is cut out");
  data::check_part(data.format, data.format.sized(height, width));
  return {height, width};
}

std::string cut_out_centres(Datasets& sets, const DataPlan& data) {
  const bool queue_cuts = !queue_cut(data).empty();
  if (!queue_cuts) sets.train = data::cut_out_centre(sets.train, data.format, data.resize_to);
  for (data::Dataset* dataset : {&sets.validation, &sets.test})
    *dataset = data::cut_out_centre(*dataset, data.format, data.resize_to);
  return (queue_cuts ? "random parts of images fitted to " : "the centre of images fitted to ") +
         size_text(data.resize_to[0], data.resize_to[1]) + " (" + resize_text(data.format) + ")" +
         (queue_cuts ? "; for validation and test the centre" : "");
}

data::ImageFormat training_format(const DataPlan& data) {
  return queue_cut(data).empty() ? data.format : data.format.sized(data.resize_to[0], data.resize_to[1]);
}

}  // namespace lockstep::train
