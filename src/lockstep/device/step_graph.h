// Work that a device repeats with the same shapes: recorded once, then replayed as a whole, without the
// host's part of each operator.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

namespace lockstep::device {

/// One piece of work on one device: rehearse() a few times, record() once, then replay(). One thread. The
/// work reads and writes the same memory each time. It must not wait for the device, take values from the
/// host, or branch on values. It may draw from the device's generator, which is seeded before each call. What
/// it allocates and keeps while it is recorded is where each replay leaves its results.
class StepGraph {
 public:
  using Work = std::function<void()>;
  virtual ~StepGraph() = default;

  /// Does the work as it will be recorded, so that libraries complete the set-up of their first call.
  virtual void rehearse(const Work& work) = 0;

  /// Records what the work sends to the device, without executing it. Throws std::exception if the work
  /// cannot be recorded; the object is then unusable, and the device is unchanged.
  virtual void record(const Work& work) = 0;

  /// Within rehearse() or record(): does branch(0) to branch(count - 1) in this order on the host. The device
  /// may execute them at the same time, so none may read what another writes, and what they allocate must
  /// live until all have ended.
  virtual void side_by_side(int64_t count, const std::function<void(int64_t)>& branch) {
    for (int64_t i = 0; i < count; ++i) branch(i);
  }

  /// Executes the recorded work, after everything that this thread sent to the device before.
  virtual void replay() = 0;
};

/// For devices that cannot record, and for tests: repeats the work itself, so everything that the work refers
/// to must outlive the object.
class RepeatedWork : public StepGraph {
 public:
  void rehearse(const Work& work) override { work(); }
  void record(const Work& work) override { work_ = work; }
  void replay() override { work_(); }

 private:
  Work work_;
};

}  // namespace lockstep::device
