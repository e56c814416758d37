// Opens a pool of three processes, prints their ids, and repeats a collective in them until it is killed
// (pool_test.py).
#include <cstdio>

#include "lockstep/pool/run.h"

using namespace lockstep;
using namespace lockstep::pool;

namespace {

void circle(Worker& worker) {
  const at::Tensor large = at::ones({400'000});
  while (true) worker.comm().all_reduce({large}, comm::Reduction::mean);
}

// Ignores its stop token and makes no call that would end.
void spin(Worker&) {
  volatile int64_t count = 0;
  while (true) count = count + 1;
}

constexpr auto circle_task = task<circle>("circle");
constexpr auto spin_task = task<spin>("spin");

void client(Session& session) {
  const bool spins = !session.arguments().empty() && session.arguments().front() == "spin";
  if (!session.arguments().empty() && session.arguments().front() == "starting") {
    std::printf("\n");
    std::fflush(stdout);
  }
  const Pool pool = session.open_pool({.kind = PoolKind::processes, .workers = 3, .quiet = true});
  const auto future =
      spins ? pool.parfeval(spin_task, {}, {.workers = 3}) : pool.parfeval(circle_task, {}, {.workers = 3});
  for (const WorkerInfo& worker : pool.workers())
    std::printf("%lld ", static_cast<long long>(worker.process));
  std::printf("\n");
  std::fflush(stdout);
  future.get();
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, {circle_task, spin_task}, client); }
