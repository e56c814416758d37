// Work that a device does many times with the same shapes: recorded once, then done again in one go, without
// the host's part of each operator.
#pragma once

#include <functional>
#include <utility>

namespace lockstep::device {

/// One piece of work on one device: rehearse() a few times, record() once, then replay(). One thread.
/// The work reads and writes the same memory each time. It must not wait for the device, take values from the
/// host, draw random numbers, or do other things for other values; what it allocates and keeps while it is
/// recorded is where each replay leaves its results.
class StepGraph {
 public:
  using Work = std::function<void()>;
  virtual ~StepGraph() = default;

  /// Does the work as it will be recorded, so that libraries have made what they make at a first call.
  virtual void rehearse(const Work& work) = 0;

  /// Takes down what the work tells the device, and does nothing of it. Throws std::exception where the work
  /// cannot be recorded; the object is then of no more use, and the device as if nothing had been.
  virtual void record(const Work& work) = 0;

  /// Does what was recorded, after what this thread told the device before.
  virtual void replay() = 0;
};

/// For devices that record nothing, and tests: does the work itself again, so what the work refers to must
/// live as long as the object.
class RepeatedWork : public StepGraph {
 public:
  void rehearse(const Work& work) override { work(); }
  void record(const Work& work) override { work_ = work; }
  void replay() override { work_(); }

 private:
  Work work_;
};

}  // namespace lockstep::device
