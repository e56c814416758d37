#include <algorithm>
#include <string>

#include "lockstep/base/columns_of_text.h"
#include "lockstep/base/counted.h"
#include "lockstep/base/describe.h"
#include "lockstep/base/text.h"
#include "lockstep/device/jpeg_decoder.h"
#include "lockstep/train/planning/internal/line_groups.h"

namespace lockstep::train {
namespace {

std::string decoding_words(const data::ImageFormat& format) {
  switch (format.decode) {
    case data::Decode::exact:
      return "within 1 level of Pillow";
    case data::Decode::fast:
      return "JPEG scaled towards the image size; several levels off Pillow's";
    case data::Decode::gpu:
      return "JPEG by " + format.jpeg_decoder->fingerprint() + "; several levels off Pillow's";
  }
  return "";
}

void add_image_lines(std::vector<PlanLine>& lines, const Plan& plan, const PlanReasons& reasons) {
  const data::ImageFormat& format = plan.data.format;
  const bool by_recipe = plan.recipe.find("image-size") != nullptr;
  lines.push_back({"image size", std::to_string(format.height) + "x" + std::to_string(format.width),
                   by_recipe ? "by the recipe; other sizes: " + describe_detail::as_text(format.resize)
                             : reasons.image_size});
  lines.push_back({"color", format.channels == 1 ? "grey" : "rgb", reasons.color});
  lines.push_back({"decode", describe_detail::as_text(format.decode), decoding_words(format)});
  lines.push_back({"normalize", reasons.normalize,
                   reasons.normalize == "mean-std" ? "of the training images" : "pixels / 255"});
}

void add_sequence_lines(std::vector<PlanLine>& lines, const Plan& plan, const PlanReasons& reasons) {
  const DataPlan& data = plan.data;
  const nn::NetworkInput& input = plan.network.input;
  lines.push_back({"sequences",
                   counted(input.channels, "channel") + ", up to " + counted(input.time_steps, "time step"),
                   input.labels_time_steps ? "a class for each time step" : "a class for each sequence"});
  lines.push_back({"padding", describe_detail::as_text(data.format.padding),
                   data.least_time_steps > 0 ? "to at least " + counted(data.least_time_steps, "time step")
                                             : "to the longest of the mini-batch"});
  if (plan.step.tbptt_length > 0) {
    lines.push_back({"pieces", counted(plan.step.tbptt_length, "time step"),
                     "in " + std::to_string(plan.step.mini_batch_size) +
                         " slots, each of which carries the state on; not shuffled"});
  }
  if (reasons.sorted_by_length) lines.push_back({"order", "by length", "asked for"});
  lines.push_back({"normalize", reasons.normalize,
                   reasons.normalize == "mean-std" ? "of the training sequences" : "values as they are"});
}

// Few classes are listed, and of many the extremes.
PlanLine class_line(const DataPlan& data) {
  constexpr size_t kMostListed = 12;
  constexpr int kWidestName = 20;  // in columns; a reader recognises the class
  const auto [least, most] = std::minmax_element(data.class_counts.begin(), data.class_counts.end());
  const auto named = [&](std::vector<int64_t>::const_iterator count) {
    const std::string& name = data.classes[static_cast<size_t>(count - data.class_counts.begin())];
    return shortened(printable(name), kWidestName) + " " + with_commas(*count);
  };
  std::vector<std::string> counts;
  for (auto count = data.class_counts.begin(); count != data.class_counts.end(); ++count)
    counts.push_back(named(count));
  const std::string listed =
      counts.size() <= kMostListed ? join(counts, ", ") : "from " + named(least) + " to " + named(most);
  return {"per class", with_commas(*least) + (*least == *most ? "" : " to " + with_commas(*most)), listed};
}

}  // namespace

std::vector<PlanLine> data_lines(const Plan& plan, const PlanReasons& reasons) {
  const DataPlan& data = plan.data;
  const bool sequences = data.format.kind == data::SampleKind::sequence;
  const bool pieces = sequences && plan.step.tbptt_length > 0;
  const std::string noun = !sequences ? "image" : pieces ? "piece" : "sequence";
  const std::string whole = pieces ? " of sequences" : "";
  std::vector<PlanLine> lines;
  lines.push_back({"data",
                   (data.streamed ? "streamed " + noun + "s" : counted(data.train_count, noun)) + whole +
                       ", " + counted(std::ssize(data.classes), "class"),
                   reasons.source.empty() ? "given" : reasons.source});
  if (!data.class_counts.empty()) lines.push_back(class_line(data));
  if (!data.class_weights.empty()) {
    const auto [least, most] = std::minmax_element(data.class_weights.begin(), data.class_weights.end());
    lines.push_back({"class weights", fixed(*least, 3) + " to " + fixed(*most, 3),
                     "balanced: in the training loss, each class counts the same"});
  }
  lines.push_back({"held out", counted(data.validation_count, noun) + whole, reasons.validation});
  if (data.test_count > 0) lines.push_back({"test", counted(data.test_count, noun) + whole, reasons.test});
  if (sequences) {
    add_sequence_lines(lines, plan, reasons);
  } else {
    add_image_lines(lines, plan, reasons);
  }
  return lines;
}

}  // namespace lockstep::train
