#include "lockstep/cli/sweep_status.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>

#include "lockstep/base/columns_of_text.h"
#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/sweep_table.h"

namespace lockstep::cli {
namespace {

using sweep::TrialState;

constexpr auto kRedrawInterval = std::chrono::seconds(1);
constexpr int kColumnsOfCtrlC = 2;  // "^C", which the terminal prints after the line

}  // namespace

SweepStanding::SweepStanding(const sweep::Table& table, int64_t planned)
    : maximizes_(table.spec.maximizes()), planned_(planned) {
  for (const sweep::Row& row : table.rows) replace(row.trial, {row.state, row.value});
}

std::optional<SweepStanding::Rank> SweepStanding::rank_of(int64_t trial, const Known& known) const {
  const auto rank = sweep::rank_of_result(known.state, known.value.value_or(sweep::kAbsent), maximizes_);
  return rank ? std::optional(Rank{*rank, trial}) : std::nullopt;
}

void SweepStanding::replace(int64_t trial, const Known& known) {
  const auto [entry, is_new] = trials_.try_emplace(trial);
  if (!is_new) {
    --counts_[entry->second.state];
    if (const auto rank = rank_of(trial, entry->second)) ranks_.erase(*rank);
  }
  entry->second = known;
  ++counts_[known.state];
  if (const auto rank = rank_of(trial, known)) ranks_.insert(*rank);
}

void SweepStanding::take(const sweep::Trial& trial, double seconds) {
  const auto known = trials_.find(trial.number);
  if (sweep::is_over(trial.state) && (known == trials_.end() || !sweep::is_over(known->second.state))) {
    ++ended_here_;
    seconds_to_last_ = seconds;
  }
  replace(trial.number,
          {trial.state, std::isfinite(trial.value) ? std::optional(trial.value) : std::nullopt});
}

int64_t SweepStanding::count(TrialState state) const {
  const auto found = counts_.find(state);
  return found == counts_.end() ? 0 : found->second;
}

// A number that is as fast as the trials have been, and is counted down between two ends.
std::optional<double> SweepStanding::seconds_left(double seconds, int64_t without_end) const {
  if (ended_here_ < std::max<int64_t>(1, count(TrialState::running))) return std::nullopt;
  const double each = seconds_to_last_ / static_cast<double>(ended_here_);
  const double left = each * static_cast<double>(without_end) - (seconds - seconds_to_last_);
  return left > 0 ? std::optional(left) : std::nullopt;
}

std::string SweepStanding::text(double seconds) const {
  int64_t ended = 0;
  for (const auto& [state, count] : counts_) ended += sweep::is_over(state) ? count : 0;
  std::string text =
      std::to_string(ended) + " of " + std::to_string(planned_) + (planned_ == 1 ? " trial" : " trials");
  if (const int64_t failed = count(TrialState::failed); failed > 0)
    text += ", " + std::to_string(failed) + " failed";
  text += ", " + std::to_string(count(TrialState::running)) + " running";
  if (!ranks_.empty()) {
    const int64_t best = ranks_.begin()->second;
    text += ", best " + sweep::result_text(*trials_.at(best).value) + " (trial " + std::to_string(best) + ")";
  }
  if (const auto left = seconds_left(seconds, planned_ - ended))
    text += ", about " + as_duration(*left) + " left";
  return text;
}

std::string waiting_text(const sweep::SweepEnd& end) {
  if (end.idle_seconds <= 0) return "";
  const double percent =
      100 * end.idle_seconds / (end.seconds * static_cast<double>(std::max<int64_t>(1, end.side_by_side)));
  return as_duration(end.seconds) + " with " + counted(end.side_by_side, "trial") +
         " side by side; waiting for earlier results took " +
         (percent < 1 ? "less than 1" : fixed(percent, 0)) + " % of it (--lag, --free)\n";
}

SweepStatus::SweepStatus(const sweep::Table& table, Console& console)
    : console_(console), is_live_(console.can_redraw()), standing_(table, planned_trials(table.spec)) {
  if (!is_live_) return;
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::condition_variable_any never;
    std::unique_lock lock(mutex_);
    try {
      while (!stop.stop_requested()) {
        draw();
        never.wait_for(lock, stop, kRedrawInterval, [] { return false; });
      }
    } catch (const ClosedPipe&) {  // the next line of a trial says so
    } catch (const Error&) {
    }
  });
}

SweepStatus::~SweepStatus() {
  thread_ = {};
  try {
    take_away();
  } catch (const ClosedPipe&) {  // what is printed next says so
  } catch (const Error&) {
  }
}

void SweepStatus::take(const sweep::Trial& trial) {
  const std::lock_guard lock(mutex_);
  standing_.take(trial, seconds());
}

void SweepStatus::print(const std::string& text) {
  const std::lock_guard lock(mutex_);
  take_away();
  console_.print(text);
  draw();
}

void SweepStatus::note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  take_away();
  console_.note(text);
  draw();
}

void SweepStatus::draw() {
  if (!is_live_) return;
  console_.print("\r" + shortened(standing_.text(seconds()), console_.table_width() - kColumnsOfCtrlC) +
                 "\033[K");
}

void SweepStatus::take_away() {
  if (is_live_) console_.print("\r\033[K");
}

double SweepStatus::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

}  // namespace lockstep::cli
