// The options of `lockstep plan --forecast`.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/base/describe.h"

namespace lockstep::train {

struct ForecastOptions {
  std::vector<int64_t> forecast;
  int64_t workers_per_machine = 0;
  double network_bandwidth = 10;
  double network_latency = 50;
  std::vector<int64_t> worker_speeds;

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Forecast");
    field("forecast", self.forecast,
          "numbers of workers, e.g. 1,2,4,8: measure a step here for some seconds, and estimate time, "
          "throughput and efficiency for each",
          between(1, 4096));
    field("workers-per-machine", self.workers_per_machine,
          "forecast: workers on each machine; 0: all workers are on one machine", between(0, 4096));
    field("network-bandwidth", self.network_bandwidth,
          "forecast: between machines, gigabits per second in each direction", above(0, 1e6));
    field("network-latency", self.network_latency,
          "forecast: between machines, microseconds from one to another", between(0, 1e9));
    field("worker-speeds", self.worker_speeds,
          "forecast: speed of each worker in percent of the speed measured here, e.g. 100,100,50; the last "
          "number applies to all further workers",
          between(1, 10000));
  };
};

}  // namespace lockstep::train
