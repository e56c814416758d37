#include "lockstep/train/loop/wishes.h"

namespace lockstep::train {
namespace {

std::string words_of(const record::Request& asked) {
  switch (asked.request) {
    case record::RequestKind::stop:
      return "the step under way is dropped, and a checkpoint is saved";
    case record::RequestKind::finish:
      return "the run ends after this step and writes its weights";
    case record::RequestKind::checkpoint:
      return "a checkpoint is saved after this step";
    case record::RequestKind::report:
      return "the steps that are divisible by " + std::to_string(asked.every) + " are logged";
  }
  return "";
}

}  // namespace

void Wishes::grant(const record::Request& asked) {
  if (!ending_notice(asked).empty()) {
    const std::lock_guard lock(mutex_);
    asked_by_ = asked.from.empty() ? "somebody" : asked.from;
  }
  switch (asked.request) {
    case record::RequestKind::stop:
      stop.request_stop();
      break;
    case record::RequestKind::finish:
      finish = true;
      break;
    case record::RequestKind::checkpoint:
      checkpoint = true;
      break;
    case record::RequestKind::report:
      log_every = asked.every;
      break;
  }
}

std::string Wishes::asked_by() const {
  const std::lock_guard lock(mutex_);
  return asked_by_;
}

void Wishes::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  error_ = error;
  failed_ = true;
}

void Wishes::check() const {
  if (!failed_) return;
  const std::lock_guard lock(mutex_);
  throw Error(*error_);
}

record::Answer answer_to(const record::Request& asked) {
  return {.request = describe_detail::as_text(asked.request),
          .id = asked.id,
          .from = asked.from,
          .answer = words_of(asked)};
}

std::string ending_notice(const record::Request& asked) {
  if (asked.request == record::RequestKind::stop)
    return "stopping: " + asked.from + " asked for it; saving a checkpoint";
  if (asked.request == record::RequestKind::finish)
    return "finishing: " + asked.from + " asked for it; writing the weights";
  return "";
}

}  // namespace lockstep::train
