#include "lockstep/train/planning/recipe_use.h"

#include "lockstep/data/survey.h"
#include "lockstep/train/planning/start_weights.h"

namespace lockstep::train {
namespace {

// For a whole training of a network that the program knows, with a mini-batch that does not depend on the
// machine: the learning rate does.
bool has_recipe(const TrainingRequest& request, const Options& options) {
  return request.network.empty() && request.stream == nullptr && request.standing == nullptr &&
         options.exchange != ExchangeKind::average && options.tbptt_length == 0 &&
         !options.mini_batch_size.is_auto();
}

}  // namespace

std::string started_from(const Plan& plan, const Options& options) {
  const RecipeValue* start = plan.recipe.find("pretrained");
  return start != nullptr ? start->value : options.pretrained;
}

void RecipeUse::begin(Options& options) {
  if (!has_recipe(request_, options)) options.recipe = Recipe::plain;
  if (earlier_ != nullptr) options.recipe = earlier_->recipe.kind;
  plan_.kind = options.recipe;
  if (earlier_ != nullptr) adopt(earlier_->recipe.values, options);
}

bool RecipeUse::starts_from_trained(const data::Dataset& train, const data::ImageFormat& format,
                                    Options& options) {
  if (!chooses() || !options.pretrained.empty()) return false;
  const auto start = trained_start(facts(train, format));
  if (start) adopt({*start}, options);
  return start.has_value();
}

bool RecipeUse::makes_images_smaller(const data::Dataset& train, const data::ImageFormat& format,
                                     Options& options) {
  if (!chooses()) return false;
  const auto smaller = smaller_images(facts(train, format), options);
  if (smaller) adopt({*smaller}, options);
  return smaller.has_value();
}

bool RecipeUse::choose(const data::Dataset& train, const data::ImageFormat& format, Options& options) {
  if (!chooses()) return false;
  options.head = head_for(options, train.classes(), {.given = request_.given, .earlier = nullptr});
  adopt(recipe_values(facts(train, format), options), options);
  return true;
}

bool RecipeUse::leaves_rate_open() const {
  if (earlier_ != nullptr) return earlier_->update.may_start_again;
  return asked_.learning_rate.is_auto() || (plan_.kind == Recipe::auto_ && asked_.learning_rate == 0);
}

RecipeFacts RecipeUse::facts(const data::Dataset& train, const data::ImageFormat& format) {
  if (!drawings_) drawings_ = may_be_drawings(format) && data::are_drawings(train);
  if (!sample_count_) sample_count_ = train.size();
  return {asked_,
          request_.given,
          format,
          train.size(),
          *sample_count_,
          static_cast<int64_t>(train.classes().size()),
          train.store().labels_time_steps(),
          *drawings_};
}

void RecipeUse::adopt(const std::vector<RecipeValue>& values, Options& options) {
  for (const RecipeValue& value : values) set_field(options, value.option, value.value);
  plan_.values.insert(plan_.values.end(), values.begin(), values.end());
}

}  // namespace lockstep::train
