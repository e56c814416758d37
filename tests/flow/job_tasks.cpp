// A program whose tasks run as jobs: it submits one and ends, and another start of it takes the result.
#include <cstdio>

#include <ATen/ATen.h>

#include "lockstep/jobs/job_store.h"
#include "lockstep/pool/run.h"

namespace {

using namespace lockstep;

struct Span {
  int64_t first = 0;
  int64_t last = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("first", self.first);
    field("last", self.last);
  };
};

struct Total {
  double sum = 0;
  int64_t ranks = 0;
  at::Tensor squares{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("sum", self.sum);
    field("ranks", self.ranks);
    field("squares", self.squares);
  };
};

Total add_up(pool::Worker& worker, const Span& span) {
  if (span.last < span.first) throw Error(ErrorCode::invalid_option, "the span is empty");
  Total total{.ranks = worker.size()};
  for (int64_t i = span.first; i <= span.last; ++i) total.sum += static_cast<double>(i);
  total.squares = at::arange(span.first, span.last + 1).square();
  const auto store = jobs::JobStore::of_this_process();
  if (store && worker.rank() == 0) store->put_value("sum", total.sum);
  if (worker.rank() == 0) std::printf("added\n");
  return total;
}
constexpr auto add_up_task = pool::task<add_up>("add-up");

int show_machines(const cluster::Cluster& cluster) {
  const bool are_up = cluster.wait({.limit = std::chrono::seconds(30)});
  std::printf("%s %s\n", cluster.name().c_str(), are_up ? "is up" : "is not up");
  for (const cluster::Node& node : cluster.show())
    std::printf("%s %s %d\n", node.host.c_str(), node.state.c_str(), static_cast<int>(node.cores));
  return are_up ? 0 : 1;
}

// What a profile is asked to do; what it says.
int use_cluster(const cluster::Cluster& cluster, const std::string& what) {
  if (what == "default") cluster.make_default();
  const std::string said = what == "start"      ? cluster.start()
                           : what == "stop"     ? cluster.stop()
                           : what == "validate" ? cluster.validate()
                                                : "done\n";
  std::printf("%s", said.c_str());
  return 0;
}

// submit FIRST LAST WORKERS [PROFILE] | collect JOB | cancel JOB | machines [PROFILE] |
// validate|default|start|stop PROFILE
int client(pool::Session& session) {
  const std::vector<std::string>& words = session.arguments();
  const auto number = [&](size_t i) { return static_cast<int64_t>(std::stoll(words.at(i))); };
  if (words.at(0) == "submit") {
    const auto job = session.batch(add_up_task, {.first = number(1), .last = number(2)},
                                   {.profile = words.size() > 4 ? words[4] : "", .workers = number(3)});
    std::printf("%s\n", job.id().c_str());
    return 0;
  }
  if (words.at(0) == "machines") return show_machines(session.cluster(words.size() > 1 ? words[1] : ""));
  for (const char* what : {"validate", "default", "start", "stop"}) {
    if (words.at(0) == what) return use_cluster(session.cluster(words.at(1)), what);
  }
  const pool::BatchJob<Total> job(words.at(1));
  if (words.at(0) == "cancel") return job.cancel() ? 0 : 1;
  const Total total = job.get();
  std::printf("%.0f by %d, %d squares, the last %d; said %s", total.sum, static_cast<int>(total.ranks),
              static_cast<int>(total.squares.numel()), static_cast<int>(total.squares[-1].item<int64_t>()),
              job.diary().c_str());
  return job.value("sum") == Json(total.sum) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return lockstep::pool::run(argc, argv, {add_up_task}, client); }
