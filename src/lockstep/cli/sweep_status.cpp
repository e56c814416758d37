#include "lockstep/cli/sweep_status.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <utility>

#include "lockstep/base/columns_of_text.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/sweep_table.h"

namespace lockstep::cli {
namespace {

constexpr auto kRedrawInterval = std::chrono::seconds(1);
constexpr int kColumnsOfCtrlC = 2;  // "^C", which the terminal prints after the line

// A number that is as fast as the trials have been, and is counted down between two ends.
std::optional<double> seconds_left(const SweepStanding& standing, int64_t running, int64_t without_end) {
  if (standing.ended_here < std::max<int64_t>(1, running)) return std::nullopt;
  const double each = standing.seconds_to_last / static_cast<double>(standing.ended_here);
  const double left = each * static_cast<double>(without_end) - standing.seconds_since_last;
  return left > 0 ? std::optional(left) : std::nullopt;
}

}  // namespace

void take_trial(SweepStanding& standing, const sweep::Trial& trial, double seconds) {
  std::vector<sweep::Row>& rows = standing.table.rows;
  auto row = std::find_if(rows.begin(), rows.end(),
                          [&](const sweep::Row& one) { return one.trial == trial.number; });
  if (row == rows.end()) row = rows.insert(row, {.trial = trial.number});
  if (sweep::is_over(trial.state) && !sweep::is_over(row->state)) {
    ++standing.ended_here;
    standing.seconds_to_last = seconds;
  }
  row->state = trial.state;
  row->value = std::isfinite(trial.value) ? std::optional(trial.value) : std::nullopt;
}

std::string status_text(const SweepStanding& standing) {
  int64_t ended = 0, running = 0, failed = 0;
  for (const sweep::Row& row : standing.table.rows) {
    ended += sweep::is_over(row.state) ? 1 : 0;
    running += row.state == sweep::TrialState::running ? 1 : 0;
    failed += row.state == sweep::TrialState::failed ? 1 : 0;
  }
  const int64_t all = standing.planned;
  std::string text = std::to_string(ended) + " of " + std::to_string(all) + (all == 1 ? " trial" : " trials");
  if (failed > 0) text += ", " + std::to_string(failed) + " failed";
  text += ", " + std::to_string(running) + " running";
  if (const sweep::Row* best = standing.table.best())
    text += ", best " + fixed(*best->value, 4) + " (trial " + std::to_string(best->trial) + ")";
  if (const auto left = seconds_left(standing, running, all - ended))
    text += ", about " + as_duration(*left) + " left";
  return text;
}

SweepStatus::SweepStatus(sweep::Table table, Console& console)
    : console_(console), is_live_(console.can_redraw()) {
  standing_.planned = planned_trials(table.spec);
  standing_.table = std::move(table);
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
  take_trial(standing_, trial, seconds());
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
  standing_.seconds_since_last = seconds() - standing_.seconds_to_last;
  console_.print("\r" + shortened(status_text(standing_), console_.table_width() - kColumnsOfCtrlC) +
                 "\033[K");
}

void SweepStatus::take_away() {
  if (is_live_) console_.print("\r\033[K");
}

double SweepStatus::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

}  // namespace lockstep::cli
