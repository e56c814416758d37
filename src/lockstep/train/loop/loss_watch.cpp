#include "lockstep/train/loop/loss_watch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

constexpr int64_t kLeastWindow = 40, kMostWindow = 100;  // steps
constexpr double kExploded = 3;                          // times the loss at the start, or of guessing
constexpr double kJump = 2;          // times the first loss, after which standing still is the rate's fault
constexpr double kMostCounted = 10;  // times the same, so that one bad mini-batch is no explosion
constexpr double kFalls = 0.9;       // times the mean of the window's first half: the loss still falls
constexpr double kStands = 0.98;     // of the loss of guessing
constexpr double kStartsHigh = 10;   // times the loss of equal guesses
constexpr double kSure = 0.1;        // loss of guessing, below which guessing is nearly right

// The least cross-entropy of one answer for all samples.
double loss_of_guessing(const DataPlan& data, double smoothing) {
  const auto all =
      static_cast<double>(std::accumulate(data.class_counts.begin(), data.class_counts.end(), int64_t{0}));
  const auto classes = static_cast<double>(std::max<size_t>(2, data.classes.size()));
  if (all == 0 || !data.class_weights.empty()) return std::log(classes);
  double entropy = 0;
  for (const int64_t count : data.class_counts) {
    const double share = (1 - smoothing) * static_cast<double>(count) / all + smoothing / classes;
    if (share > 0) entropy -= share * std::log(share);
  }
  return entropy;
}

}  // namespace

LossWatch::LossWatch(const Plan& plan, double learning_rate)
    : plan_(plan),
      learning_rate_(learning_rate),
      window_(std::clamp(plan.length.steps_per_epoch, kLeastWindow, kMostWindow)),
      guessing_(loss_of_guessing(plan.data, plan.update.label_smoothing)),
      equal_guess_(std::log(static_cast<double>(std::max<size_t>(2, plan.data.classes.size())))) {}

LossVerdict LossWatch::judge(WatchedLoss& watched, int64_t step, double loss) const {
  if (!std::isfinite(loss)) return LossVerdict::exploded;
  if (step == 1) watched.first = loss;
  watched.largest = std::max(watched.largest, loss);
  const int64_t half = window_ / 2, position = (step - 1) % window_;
  const double reference = std::max(watched.first, guessing_);
  (position < half ? watched.earlier_sum : watched.sum) += std::min(loss, kMostCounted * reference);
  if (step == 1 && guessing_ > kSure && loss > kStartsHigh * equal_guess_) return LossVerdict::starts_high;
  if (position + 1 < window_) return LossVerdict::good;
  const double mean = watched.sum / static_cast<double>(window_ - half);
  const double earlier_mean = watched.earlier_sum / static_cast<double>(half);
  watched.sum = watched.earlier_sum = 0;
  if (mean > kExploded * reference) {
    ++watched.windows;
    return LossVerdict::exploded;
  }
  // Where nearly all samples are of one class, nothing can be seen.
  const bool is_guess = watched.windows == 0 && guessing_ > kSure && mean >= kStands * guessing_;
  // While the loss still falls, and while the rate is that of a warm-up, the next window tells, but within an
  // epoch.
  const bool warms_up = step <= plan_.update.warmup_steps && step + window_ <= plan_.length.steps_per_epoch;
  if (is_guess && (warms_up || mean < kFalls * earlier_mean)) return LossVerdict::good;
  ++watched.windows;
  return is_guess ? LossVerdict::stands_still : LossVerdict::good;
}

bool LossWatch::is_the_rates_fault(const WatchedLoss& watched, LossVerdict verdict) const {
  return verdict == LossVerdict::exploded || watched.largest > kJump * std::max(watched.first, guessing_);
}

std::string LossWatch::text(const WatchedLoss& watched, LossVerdict verdict, double loss) const {
  const std::string guess = fixed(guessing_, 3);
  const std::string rate = "--learning-rate " + shortest(learning_rate_ / 10);
  const std::string normalize = plan_.data.mean.empty() ? ", --normalize mean-std" : "";
  if (verdict == LossVerdict::starts_high)
    return "the first loss is " + fixed(loss, 3) + ", where guessing gives " + guess +
           ": the samples are probably not normalised as the network expects; try " +
           (plan_.network.weights.empty() ? "--normalize mean-std"
                                          : "the --normalize that the weights were trained with");
  if (verdict == LossVerdict::exploded)
    return "the loss has exploded: " + (std::isfinite(loss) ? fixed(loss, 3) : "it is not finite") +
           ", where guessing gives " + guess + "; try " + rate + normalize +
           (plan_.update.gradient_clip > 0 ? "" : ", --gradient-clip 1") +
           (plan_.network.weights.empty() ? "" : ", or the normalisation that the weights were trained with");
  const bool frozen = plan_.network.learned_count < plan_.network.parameter_count;
  return "the loss stands still at " + fixed(loss, 3) + ", where guessing gives " + guess +
         ": so far nothing is learned; " +
         (is_the_rates_fault(watched, verdict) ? "it was " + fixed(watched.largest, 3) + " before, so try "
                                               : "check that the labels belong to the samples, and try ") +
         rate + " or ten times the rate" + normalize + (frozen ? ", or fewer layers in --freeze" : "");
}

}  // namespace lockstep::train
