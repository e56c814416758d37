#include "lockstep/comm/patience.h"

#include <algorithm>
#include <thread>

#include "lockstep/base/text.h"

namespace lockstep::comm {
namespace {

constexpr std::chrono::milliseconds kLongestPause{50};
constexpr std::chrono::seconds kSecondWord{30}, kMinute{60};

}  // namespace

std::string Patience::limit_text() const {
  return shortest(static_cast<double>(waiting_.limit.count()) / 1000) + " s";
}

std::chrono::milliseconds Patience::rest() const {
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(start_ + waiting_.limit - Clock::now()),
                  std::chrono::milliseconds(1));
}

void Patience::tell(const std::function<std::string()>& what) {
  if (waiting_.tell && Clock::now() >= start_ + next_word_) {
    waiting_.tell(what());
    next_word_ = next_word_ < kSecondWord ? kSecondWord : next_word_ + kMinute;
  }
}

void Patience::sleep(const std::function<std::string()>& what) {
  tell(what);
  std::uniform_int_distribution<std::chrono::microseconds::rep> between(
      std::chrono::microseconds(pause_).count() / 2, std::chrono::microseconds(pause_).count());
  std::this_thread::sleep_for(
      std::min(std::chrono::microseconds(between(random_)), std::chrono::microseconds(rest())));
  pause_ = std::min(pause_ * 2, kLongestPause);
}

}  // namespace lockstep::comm
