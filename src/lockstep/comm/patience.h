// How long ranks wait for each other before they are a group, and what they report meanwhile.
#pragma once

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <utility>

namespace lockstep::comm {

struct Waiting {
  std::chrono::milliseconds limit = std::chrono::minutes(5);
  std::function<void(const std::string& what)>
      tell{};  ///< called now and then with what is waited for, on the waiting thread; may be empty
};

/// One wait, for one or several things. One thread.
class Patience {
 public:
  explicit Patience(Waiting waiting) : waiting_(std::move(waiting)) {}

  std::chrono::milliseconds limit() const { return waiting_.limit; }
  std::string limit_text() const;  ///< "300 s"
  /// The time that is left; at least a millisecond.
  std::chrono::milliseconds rest() const;
  bool is_over() const { return Clock::now() >= start_ + waiting_.limit; }

  /// Reports what is waited for after five seconds, after half a minute, and then each minute. `what` is
  /// called only then.
  void tell(const std::function<std::string()>& what);
  /// Between two looks: reports, and sleeps for some milliseconds, drawn at random, so that looks never keep
  /// step with another program that writes there at regular times.
  void sleep(const std::function<std::string()>& what);
  /// Something arrived: the next look may come sooner.
  void renew() { pause_ = kFirstPause; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kFirstPause{1};

  const Waiting waiting_;
  const Clock::time_point start_ = Clock::now();
  std::chrono::milliseconds pause_ = kFirstPause;
  std::chrono::seconds next_word_{5};
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace lockstep::comm
