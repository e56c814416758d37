#include "lockstep/train/run/run_log.h"

#include "lockstep/base/host.h"
#include "lockstep/base/text.h"
#include "lockstep/record/damaged_log.h"
#include "lockstep/record/event_log.h"
#include "lockstep/train/options/on_worker.h"
#include "lockstep/view/views.h"

namespace lockstep::train {
namespace {

class ListenerView : public view::View {
 public:
  explicit ListenerView(Listener listener) : listener_(std::move(listener)) {}
  void show(const record::Event& event) override { listener_(event); }

 private:
  Listener listener_;
};

}  // namespace

Views listener_views(const TrainingRequest& request) {
  Views views;
  if (request.listener) views.push_back(std::make_unique<ListenerView>(request.listener));
  return views;
}

Views make_views(const TrainingRequest& request, const Options& options, const record::RunPaths& paths,
                 int64_t attempt) {
  Views views = listener_views(request);
  if (request.console)
    views.insert(views.begin(), view::progress(stdout, {.plot = options.plot,
                                                        .timing = options.timing,
                                                        .verbose = options.verbose,
                                                        .averages = options.report_score_after_averaging}));
  views.push_back(view::svg_curves(paths.folder));
  views.push_back(view::tensorboard(paths.folder, attempt));
  return views;
}

std::string add_earlier(const Views& views, const std::filesystem::path& run_folder) {
  const std::string damage = record::read_past_damage(run_folder, [&](const record::Event& event) {
    for (const auto& view : views) view->add_earlier(event);
  });
  return damage.empty() ? "" : "the curves lack a part of the earlier attempts: " + damage;
}

RunLog::~RunLog() {
  if (reporter_ == nullptr && status_ != nullptr) status_->restore(earlier_);
}

bool RunLog::announce(const record::RunPaths& paths, record::Status here) {
  earlier_ = record::read_status(paths.folder);
  if (!earlier_ && here.attempt == 0) return false;
  if (earlier_) here.total_steps = earlier_->total_steps;
  status_ = std::make_unique<record::StatusWriter>(paths.folder, std::move(here));
  return true;
}

void RunLog::open(const record::RunPaths& paths, const record::Status& here, Views views) {
  reporter_ = std::make_unique<Reporter>(std::make_unique<record::EventLog>(paths.folder, 0, here.attempt),
                                         std::move(views), here.attempt);
  if (status_ == nullptr) status_ = std::make_unique<record::StatusWriter>(paths.folder, here);
  status_->set_total_steps(here.total_steps);
}

void RunLog::say(record::Event event) {
  if (reporter_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (event.step > 0) status_->set_step(event.step, event.epoch);
  if (event.kind == record::Validation::kind && record::flag(event, "best"))
    status_->set_best(record::number(event, "accuracy"), event.step);
  reporter_->say(std::move(event));
}

void RunLog::message(const std::string& text, const char* level) {
  say(record::Message{.text = text, .level = level});
}

void RunLog::begin_again() {
  if (status_ != nullptr) status_->begin_again();
}

void RunLog::stopping(const std::string& text) {
  if (status_ != nullptr) status_->set_state(record::RunState::stopping, text);
  say(record::Stopping{.text = text});
}

void RunLog::finish(record::RunState state, const std::string& reason) {
  if (reporter_ == nullptr) return;
  reporter_->finish();
  status_->set_state(state, reason);
}

void RunLog::fail(const Error& error, int64_t rank) noexcept {
  if (reporter_ == nullptr) return;
  try {
    say(record::Failed{.error = error.message(),
                       .context = error.context(),
                       .hint = error.hint(),
                       .code = std::string(name_of(error.code())),
                       .rank = rank,
                       .host = host_name()});
    reporter_->finish();
  } catch (...) {  // NOLINT: see run_log.h
  }
  status_->set_state(record::RunState::failed, first_line(error.message()), error.hint());
}

// A task that is cancelled is thrown out of its step by any exchange. No checkpoint is made of such a step:
// its weights may be half updated, and other ranks have parts of the optimizer's state.
void end_by_error(RunLog& log, const Error& error, int64_t rank, const std::string& failed_in) noexcept {
  const pool::Worker* worker = pool::Worker::current();
  try {
    if (error.code() == ErrorCode::cancelled && worker != nullptr && was_cancelled(*worker)) {
      log.message("cancelled inside a step; a resume begins at the last checkpoint", "warning");
      return log.finish(record::RunState::stopped, "its program cancelled it");
    }
    if (!failed_in.empty())
      return log.fail({error.code(), failed_in + ": " + error.message(), error.hint()}, rank);
  } catch (...) {  // NOLINT: fail() writes what can be written
  }
  log.fail(error, rank);
}

}  // namespace lockstep::train
