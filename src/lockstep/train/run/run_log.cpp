#include "lockstep/train/run/run_log.h"

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
                                                        .averages = options.report_score_after_averaging}));
  views.push_back(view::svg_curves(paths.folder));
  views.push_back(view::tensorboard(paths.folder, attempt));
  return views;
}

void RunLog::open(const record::RunPaths& paths, int64_t attempt, Views views) {
  reporter_ = std::make_unique<Reporter>(std::make_unique<record::EventLog>(paths.folder, 0, attempt),
                                         std::move(views), attempt);
}

void RunLog::say(record::Event event) {
  if (reporter_ == nullptr) return;
  const std::lock_guard lock(mutex_);
  reporter_->say(std::move(event));
}

void RunLog::message(const std::string& text, const char* level) {
  say({.kind = "message", .values = {{"text", text}, {"level", level}}});
}

void RunLog::finish() {
  if (reporter_ != nullptr) reporter_->finish();
}

void RunLog::finish_after_failure() noexcept {
  try {
    finish();
  } catch (...) {  // NOLINT: see run_log.h
  }
}

}  // namespace lockstep::train
