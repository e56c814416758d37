#include "lockstep/train/run/run_log.h"

#include "lockstep/base/host.h"
#include "lockstep/base/text.h"
#include "lockstep/record/event_log.h"
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
                                                        .averages = options.report_score_after_averaging,
                                                        .earlier = options.plot ? paths.folder : ""}));
  views.push_back(view::svg_curves(paths.folder));
  views.push_back(view::tensorboard(paths.folder, attempt));
  return views;
}

void RunLog::open(const record::RunPaths& paths, int64_t attempt, Views views, int64_t total_steps) {
  reporter_ = std::make_unique<Reporter>(std::make_unique<record::EventLog>(paths.folder, 0, attempt),
                                         std::move(views), attempt);
  status_ = std::make_unique<record::StatusWriter>(
      paths.folder, record::Status{.attempt = attempt, .total_steps = total_steps});
}

void RunLog::say(record::Event event) {
  if (reporter_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  if (event.step > 0) status_->set_step(event.step, event.epoch);
  reporter_->say(std::move(event));
}

void RunLog::message(const std::string& text, const char* level) {
  say(record::Message{.text = text, .level = level});
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

}  // namespace lockstep::train
