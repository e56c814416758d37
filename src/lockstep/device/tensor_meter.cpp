#include "lockstep/device/tensor_meter.h"

#include <algorithm>
#include <atomic>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

namespace lockstep::device {

// LibTorch's allocators report to the profiler of their thread; LibTorch's other threads, for backward on a
// GPU, inherit it.
struct TensorMeter::Counter : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    const int64_t now = now_bytes.fetch_add(bytes) + bytes;
    int64_t most = most_bytes.load();
    while (most < now && !most_bytes.compare_exchange_weak(most, now)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::atomic<int64_t> now_bytes{0};
  std::atomic<int64_t> most_bytes{0};
};

struct TensorMeter::Scope {
  std::shared_ptr<Counter> counter = std::make_shared<Counter>();
  c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, counter};
};

TensorMeter::TensorMeter() : scope_(std::make_unique<Scope>()) {}
TensorMeter::~TensorMeter() = default;

int64_t TensorMeter::now() const { return scope_->counter->now_bytes; }

int64_t TensorMeter::take_most() { return scope_->counter->most_bytes.exchange(scope_->counter->now_bytes); }

}  // namespace lockstep::device
