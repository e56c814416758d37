#include "lockstep/train/planning/recipe.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>

#include "lockstep/base/counted.h"
#include "lockstep/base/share.h"
#include "lockstep/base/text.h"
#include "lockstep/base/user_folders.h"
#include "lockstep/data/survey.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/trained_weights.h"
#include "lockstep/train/planning/network_choice.h"
#include "lockstep/train/planning/network_work.h"
#include "lockstep/train/planning/split.h"

namespace lockstep::train {
namespace {

constexpr double kFlopsOfMinute = 200e9 * 60;  // of --budget, whatever the machine
constexpr double kFlopsOfSample = 6;  // for a multiplication and addition: forward, and backward twice
constexpr int64_t kSmallGrey = 40, kSmall = 64, kLeastForPools = 8;  // pixels per side
constexpr int64_t kSmallerSide = 96, kSideOfDrawings = 32;           // of few images
constexpr int64_t kFewEpochs = 6;  // of the larger network, below which a budget buys more with the smaller

enum class Kind {
  sequences,
  new_head,
  trained,
  tiny,
  small_drawings,
  small_grey,
  few_drawings,
  small,
  few_photographs,
  larger
};

struct Length {
  int64_t steps;
  int64_t least_epochs;
  int64_t most_epochs;
  int64_t samples_of_step = 0;  // with smaller mini-batches there are more steps; 0: there are not
  int64_t least_steps = 300;    // in more epochs than most_epochs, where there are so few samples
};

// Chosen by trials that bench/results lists, and where there is none, as the reason says.
Length length_of(Kind kind, bool drawings) {
  switch (kind) {
    case Kind::sequences:
      return {1000, 10, 100};
    case Kind::new_head:
      return {600, 5, 30};
    case Kind::trained:
      return {.steps = 400, .least_epochs = 4, .most_epochs = 15, .least_steps = 100};
    case Kind::small_drawings:
      return {600, 8, 100, Options().mini_batch_size};
    case Kind::few_drawings:
      return {600, 8, 50, Options().mini_batch_size};
    case Kind::small_grey:
    case Kind::small:
      return {3500, 10, 60};
    case Kind::few_photographs:
    case Kind::larger:
      return drawings ? Length{600, 8, 40} : Length{1500, 8, 30};
    case Kind::tiny:
      break;
  }
  return {500, 6, 30};
}

class Chooser {
 public:
  Chooser(const RecipeFacts& facts, const Options& options)
      : facts_(facts), options_(options), grey_(facts.format.channels == 1), kind_(kind()) {}

  std::vector<RecipeValue> choose() {
    choose_network();
    choose_augmentation();
    choose_mini_batch();
    choose_optimizer();
    choose_length();
    return std::move(values_);
  }

 private:
  bool is_given(const std::string& name) const {
    return std::find(facts_.given.begin(), facts_.given.end(), name) != facts_.given.end();
  }

  // What weights or the network's file have filled in is not open.
  bool is_open(const std::string& name) const {
    const Options defaults;
    return field_text(facts_.asked, name) == field_text(defaults, name) &&
           field_text(options_, name) == field_text(defaults, name) && !is_given(name);
  }

  void set(const char* name, const std::string& value, const std::string& reason) {
    if (!is_open(name)) return;
    set_field(options_, name, value);
    values_.push_back({name, value, reason});
  }

  Kind kind() const {
    const data::ImageFormat& format = facts_.format;
    if (format.kind == data::SampleKind::sequence) return Kind::sequences;
    if (options_.head == Head::new_ && !options_.freeze.empty()) return Kind::new_head;
    if (!options_.weights.empty()) return Kind::trained;
    const auto [least, most] = std::minmax(format.height, format.width);
    if (least < kLeastForPools) return Kind::tiny;
    const bool made_smaller = options_.image_size != facts_.asked.image_size;
    const bool few = facts_.sample_count < kFewImages;
    const bool small_grey = grey_ && most <= kSmallGrey && !made_smaller;
    if (small_grey) return facts_.drawings ? Kind::small_drawings : Kind::small_grey;
    if (facts_.drawings) return few ? Kind::few_drawings : Kind::larger;
    if (most <= kSmall) return Kind::small;
    return few && least <= kSmallerSide ? Kind::few_photographs : Kind::larger;
  }

  void choose_network() {
    if (kind_ == Kind::small) {
      const bool small = options_.budget > 0 && epochs_of_budget(nn::find_network("resnet9")) < kFewEpochs;
      const std::string images = grey_ ? "small grey photographs" : "small colour images";
      set("network", small ? "resnet9_small" : "resnet9",
          small ? images + ", and --budget is short for resnet9" : images);
    }
    if (kind_ == Kind::small_grey) set("network", "resnet9_small", "small grey images with many tones");
    if (kind_ == Kind::few_photographs) set("network", "resnet9", "few photographs and random weights");
    if (kind_ == Kind::few_drawings) set("network", "resnet9_small", "few drawings");
    if (kind_ == Kind::sequences && !facts_.labels_time_steps && options_.weights.empty())
      set("network", "conv_classifier",
          "sequences with one class each; recurrent networks need more of them");
    network_ = options_.network == "auto" ? default_network(facts_.format).first
                                          : nn::find_network(options_.network);
    has_batch_norms_ = network_.spec().dump().find("\"batch_norm\"") != std::string::npos;
  }

  // The outputs of frozen layers are computed once only where no augmentation changes the images, and images
  // that have to lie in a GPU's memory cannot be changed at all.
  void choose_augmentation() {
    if (!options_.freeze.empty() || options_.resident == Resident::on ||
        options_.keep_features == KeepFeatures::always)
      return;
    const auto shift = [&](int64_t parts) {  // by a part of the side
      const int64_t side = std::min(facts_.format.height, facts_.format.width);
      return "shift=" + std::to_string(std::max<int64_t>(1, side / parts));
    };
    switch (kind_) {
      case Kind::small_drawings:
      case Kind::few_drawings:
        set("augment", shift(14),
            "drawings mean the same a little further to the side; they are not flipped");
        break;
      case Kind::small_grey:
        set("augment", shift(14),
            "small grey images may be characters; if left and right mean the same: --augment flip," +
                shift(8));
        break;
      case Kind::small:
      case Kind::few_photographs:
        set("augment", "flip," + shift(8),
            (grey_ ? "photographs" : "colour images") +
                std::string("; if left and right differ in meaning: --augment shift"));
        break;
      case Kind::larger:
        if (!facts_.drawings && options_.resize_to.empty())
          set("augment", "random-resized-crop=0.35,flip",
              "photographs; if left and right differ in meaning: --augment random-resized-crop=0.35");
        break;
      case Kind::trained:
        if (!grey_) set("augment", "flip", "colour images");
        break;
      default:
        break;
    }
  }

  // Small data need steps more than large mini-batches.
  void choose_mini_batch() {
    const bool sequences = kind_ == Kind::sequences;
    const int64_t wanted = facts_.train_count / (sequences ? 16 : 32);
    const auto size =
        static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, wanted))));
    int64_t used = sequences ? std::clamp<int64_t>(size, 8, 64) : std::clamp<int64_t>(size, 32, 128);
    std::string reason = "so that " + counted(facts_.train_count, "sample") + " give enough steps";
    for (; leaves_one(used); --used)
      reason = "so that no mini-batch has a single sample, which batch norms cannot normalise";
    if (used != Options().mini_batch_size) set("mini-batch-size", std::to_string(used), reason);
  }

  bool leaves_one(int64_t mini_batch_size) const {
    return has_batch_norms_ && facts_.train_count % mini_batch_size == 1;
  }

  int64_t mini_batch() const {
    const int64_t asked = options_.mini_batch_size;
    return std::clamp<int64_t>(asked, 1, std::max<int64_t>(1, facts_.train_count));
  }

  void choose_optimizer() {
    switch (kind_) {
      case Kind::sequences:
        return choose_for_sequences();
      case Kind::new_head:
      case Kind::trained:
        return choose_adam("trained weights; its steps do not depend on how large their outputs are");
      case Kind::tiny:
        return;
      default:
        return has_batch_norms_ ? choose_for_batch_norms() : choose_without_batch_norms();
    }
  }

  // Who gives momentum wants the optimizer that has it.
  void choose_adam(const std::string& reason) {
    if (is_open("momentum") && is_open("nesterov")) set("optimizer", "adam", reason);
  }

  void choose_for_sequences() {
    // Without weights, what was left open has become none.
    if (facts_.asked.normalize == "auto" && options_.weights.empty() && !is_given("normalize")) {
      options_.normalize = "mean-std";
      values_.push_back({"normalize", "mean-std", "recurrent layers saturate with large values"});
    }
    choose_adam("sequences");
    if (options_.optimizer == OptimizerKind::adam) set("learning-rate", "0.003", "for adam and sequences");
    set("gradient-clip", "1", "gradients through many time steps can explode");
  }

  void choose_for_batch_norms() {
    set("batch-norm-start", "mean", "held-out scores are right from the first epoch on");
    if (options_.optimizer != OptimizerKind::sgdm) return;
    const double of_128 = network_.name() == "digits_cnn" ? 0.02 : 0.05;
    const double rate = of_128 * static_cast<double>(mini_batch()) / 128;
    set("learning-rate", shortest(std::round(rate * 1e5) / 1e5),
        shortest(of_128) + " for mini-batches of 128, in proportion");
    if (options_.momentum != 0) set("nesterov", "true", "networks with batch norms");
    set("weight-decay", "0.0005", "networks with batch norms");
    has_high_rate_ = true;
  }

  void choose_without_batch_norms() {
    choose_adam("a network without batch norms");
    if (options_.optimizer == OptimizerKind::adam) set("learning-rate", "0.001", "for adam");
  }

  int64_t steps_per_epoch() const {
    return limited_batches(options_.limit_batches, divided_up(facts_.train_count, mini_batch()));
  }

  double epochs_of_budget(const nn::Network& network) const {
    const data::ImageFormat& format = facts_.format;
    nn::NetworkInput input{format.channels, format.height, format.width, facts_.classes};
    if (kind_ == Kind::sequences)
      input = {format.channels, 1, 1, facts_.classes, format.width, facts_.labels_time_steps};
    const double work = forward_work(network, input);
    return options_.budget * kFlopsOfMinute /
           (kFlopsOfSample * work * static_cast<double>(std::max<int64_t>(1, facts_.train_count)));
  }

  void choose_length() {
    if (!is_open("max-epochs") || !is_open("max-steps")) return choose_warmup();
    const Length length = length_of(kind_, facts_.drawings);
    const int64_t steps = length.samples_of_step > mini_batch()
                              ? divided_up(length.steps * length.samples_of_step, mini_batch())
                              : length.steps;
    int64_t epochs =
        std::clamp(divided_up(steps, steps_per_epoch()), length.least_epochs, length.most_epochs);
    std::string reason = "about " + with_commas(steps) + " steps, from " +
                         std::to_string(length.least_epochs) + " to " + std::to_string(length.most_epochs) +
                         " epochs";
    const int64_t for_few = divided_up(length.least_steps, divided_up(facts_.train_count, mini_batch()));
    if (epochs < for_few) {
      epochs = for_few;
      reason = "at least " + std::to_string(length.least_steps) + " steps, from so few samples";
    }
    if (options_.budget > 0) {
      const double most = epochs_of_budget(network_);
      if (most < 1) {
        const auto steps = static_cast<int64_t>(most * static_cast<double>(steps_per_epoch()));
        set("max-steps", std::to_string(std::max<int64_t>(1, steps)), "as many as --budget pays for");
        return choose_warmup();
      }
      if (static_cast<double>(epochs) > most) {
        epochs = static_cast<int64_t>(most);
        reason = "as many as --budget pays for";
      }
    }
    set("max-epochs", std::to_string(epochs), reason);
    choose_warmup();
  }

  // A high rate needs a while to be harmless. One tenth of the steps, as is usual with a cosine.
  void choose_warmup() {
    if (!has_high_rate_) return;
    int64_t steps = options_.max_epochs * steps_per_epoch();
    if (options_.max_steps > 0) steps = steps > 0 ? std::min(steps, options_.max_steps) : options_.max_steps;
    if (steps >= 20) set("warmup-steps", std::to_string(steps / 10), "a tenth of all steps");
  }

  const RecipeFacts& facts_;
  Options options_;
  const bool grey_;
  const Kind kind_;
  nn::Network network_;
  bool has_batch_norms_ = false;
  bool has_high_rate_ = false;
  std::vector<RecipeValue> values_;
};

}  // namespace

bool may_be_drawings(const data::ImageFormat& format) {
  return format.kind == data::SampleKind::image && format.channels == 1 &&
         std::min(format.height, format.width) >= kLeastForPools;
}

std::optional<RecipeValue> trained_start(const RecipeFacts& facts) {
  const Options defaults;
  for (const char* name :
       {"network", "weights", "pretrained", "image-size", "resize", "resize-to", "color", "normalize", "head",
        "drop-layers", "new-layers", "freeze", "learning-rate-factors"}) {
    if (field_text(facts.asked, name) != field_text(defaults, name) ||
        std::find(facts.given.begin(), facts.given.end(), name) != facts.given.end())
      return std::nullopt;
  }
  const std::string network = default_network(facts.format).first.name();
  const int64_t side = std::max(facts.format.height, facts.format.width);
  if (!are_few_photographs(facts.format, facts.sample_count) || facts.format.channels == 1 ||
      side <= kSmall || lockstep_cache_folder().empty() || !nn::has_trained_weights(network) ||
      !std::filesystem::exists(nn::trained_weights_of(network).path()))
    return std::nullopt;
  return RecipeValue{
      "pretrained", network,
      "few photographs, and the weights are in the cache; --network " + network + " begins with random ones"};
}

std::optional<RecipeValue> smaller_images(const RecipeFacts& facts, const Options& options) {
  const data::ImageFormat& format = facts.format;
  const bool is_open = options.image_size == "auto" && options.network == "auto" && options.weights.empty() &&
                       options.resize_to.empty() &&
                       std::find(facts.given.begin(), facts.given.end(), "image-size") == facts.given.end();
  if (!is_open || format.kind != data::SampleKind::image) return std::nullopt;
  const int64_t least = std::min(format.height, format.width);
  const auto sized = [](int64_t side, const std::string& reason) {
    return RecipeValue{"image-size", std::to_string(side) + "x" + std::to_string(side), reason};
  };
  if (facts.sample_count >= kFewImages) {
    if (least <= data::kPhotographSide) return std::nullopt;
    const int64_t times = format.height * format.width / (data::kPhotographSide * data::kPhotographSide);
    return sized(data::kPhotographSide, "the usual size of photographs; at their own, training takes " +
                                            std::to_string(times) + " times as long");
  }
  if (least <= (facts.drawings ? kSmallGrey : kSmallerSide)) return std::nullopt;
  return sized(facts.drawings ? kSideOfDrawings : kSmallerSide,
               "few images and random weights; larger ones take longer and give little more");
}

std::vector<RecipeValue> recipe_values(const RecipeFacts& facts, const Options& options) {
  return Chooser(facts, options).choose();
}

}  // namespace lockstep::train
