#include "lockstep/train/tasks/client_line.h"

#include <utility>

namespace lockstep::train {

void ClientLine::connect(const pool::AnyFuture& call) {
  const std::lock_guard lock(mutex_);
  call_ = call;
  for (std::string& word : std::exchange(waiting_, {})) call_->say(std::move(word));
}

void ClientLine::say(const char* word) {
  const std::lock_guard lock(mutex_);
  if (call_) {
    call_->say(word);
  } else {
    waiting_.emplace_back(word);
  }
}

RankLine::RankLine(const pool::Worker& worker)
    : listener_([this, &worker](const std::stop_token& end) {
        while (const auto word = worker.next_word(end)) take(*word);
      }) {}

void RankLine::take(const std::string& word) {
  if (word == "stop") stop_.request_stop();
  if (word == "enough") enough_.request_stop();
  if (word != "yes" && word != "no") return;
  const std::lock_guard lock(mutex_);
  answer_ = word == "no" ? record::Control::stop : record::Control::go;
  changed_.notify_all();
}

record::Control RankLine::answer(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop, [&] { return answer_.has_value(); });
  const record::Control answer = answer_.value_or(record::Control::go);
  answer_.reset();
  return answer;
}

}  // namespace lockstep::train
