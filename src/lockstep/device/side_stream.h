// Work of a device beside its other work, so that gradients travel while backward computes.
#pragma once

#include <functional>
#include <memory>

namespace lockstep::device {

/// A stream of one device's work beside the stream that threads use otherwise. This class is for devices that
/// have done everything when a call returns: CPUs.
class SideStream {
 public:
  virtual ~SideStream() = default;

  /// Stands for all work that the calling thread has sent to its current stream of the device. Any thread.
  using Mark = std::shared_ptr<void>;
  virtual Mark mark() const { return nullptr; }

  /// Returns when the device has done the work of a mark. Any thread. Throws std::exception.
  virtual void wait(const Mark& /*mark*/) const {}

  /// Calls work(), which sends to this stream, and returns when the device has done what was sent. One thread
  /// at a time. Throws std::exception.
  virtual void run(const std::function<void()>& work) const { work(); }
};

}  // namespace lockstep::device
