// sweep::run over a task: the same trials for 1 and 3 threads, for groups of two and for processes of which
// one is killed, trials that fail, and searches that are refused. Prints what is wrong.
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>

#include <unistd.h>

#include "lockstep/base/test_folder.h"
#include "lockstep/lockstep.h"

using namespace lockstep;
using namespace lockstep::pool;

namespace {

struct Place {
  double x = 0;
  std::string kind = "a";
  std::string kill_once{};  // a file that tells that a process was killed; empty: none is
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("x", self.x, "");
    field("kind", self.kind, "");
    field("kill-once", self.kill_once, "");
  };
};

struct Height {
  std::string text{};
  double height = 0;
  double other = 0;
  int64_t workers = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("text", self.text, "");
    field("height", self.height, "");
    field("other", self.other, "");
    field("workers", self.workers, "");
  };
};

Height measure(Worker& worker, const Place& place) {
  if (!place.kill_once.empty() && !std::filesystem::exists(place.kill_once)) {
    std::ofstream(place.kill_once) << "killed";
    kill(getpid(), SIGKILL);
  }
  if (place.x > 8) throw Error(ErrorCode::invalid_option, "x is too large");
  if (place.x < 1) return {.height = std::nan("")};
  return {.text = place.kind,
          .height = -std::pow(place.x - 3, 2) - (place.kind == "a" ? 1 : 0),
          .other = place.x,
          .workers = worker.size()};
}

constexpr auto measure_task = task<measure>("measure");

int wrong = 0;
void expect(bool is_true, const std::string& what) {
  if (is_true) return;
  std::printf("wrong: %s\n", what.c_str());
  wrong = 1;
}

sweep::Space space_of(std::initializer_list<std::pair<const char*, const char*>> parameters) {
  sweep::Space space;
  for (const auto& [name, text] : parameters) space.add(name, text);
  return space;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing was thrown";
}

std::string table_of(const sweep::RunResult<Height>& found) {
  std::string table;
  for (const sweep::Trial& trial : found.trials) {
    table += std::to_string(trial.number);
    for (const auto& [name, value] : found.parameters_of(trial.number)) table.append(" ").append(value);
    table += std::to_string(trial.value) + trial.error + "\n";
  }
  return table;
}

int client(Session& session) {
  const test::TemporaryFolder folder;
  const sweep::Space space = space_of({{"x", "0.0..10.0"}, {"kind", "a,b"}});
  int64_t told = 0;
  sweep::RunOptions options{.search = {.count = 40, .lag = 3},
                            .report = [&](const sweep::Trial&) { ++told; }};
  std::string table;
  for (const int64_t workers : {1, 3}) {
    session.open_pool({.kind = PoolKind::threads, .workers = workers, .quiet = true});
    const auto found = sweep::run(session, space, measure_task, options);
    table = table.empty() ? table_of(found) : table;
    expect(table_of(found) == table, "another table with " + std::to_string(workers) + " threads");
    expect(found.best && found.trials[static_cast<size_t>(*found.best)].value > -0.5,
           "it found no good place");
    for (const sweep::Trial& trial : found.trials) {
      const double x = trial.point[0];
      const auto& result = found.results[static_cast<size_t>(trial.number)];
      expect((trial.state == sweep::TrialState::failed) == (x < 1 || x > 8), "a wrong trial has failed");
      expect((x > 8) == !result.has_value(), "results are not beside their trials");
      if (x > 8) expect(trial.error == "x is too large", "the error of a trial is lost: " + trial.error);
      if (result && x >= 1)
        expect(result->other == x && result->height == trial.value, "a result of another trial");
    }
  }
  expect(told == 80, "not each trial was told");
  const auto by_other = sweep::run(session, space, measure_task, {.search = {.count = 4}, .metric = "other"});
  expect(by_other.trials[0].value == by_other.trials[0].point[0], "the metric is not the one that was named");

  session.open_pool({.kind = PoolKind::threads, .workers = 4, .quiet = true});
  sweep::RunOptions in_groups = options;
  in_groups.workers = 2;
  const auto of_groups = sweep::run(session, space, measure_task, in_groups);
  expect(table_of(of_groups) == table, "another table from two workers for each trial");
  expect(of_groups.best && of_groups.results[static_cast<size_t>(*of_groups.best)]->workers == 2,
         "a trial did not have two workers");

  session.open_pool({.kind = PoolKind::processes, .workers = 2, .quiet = true});
  const std::string killed = folder.path() / "killed";
  expect(table_of(sweep::run(session, space, measure_task, options, {.kill_once = killed})) == table,
         "another table from processes");
  expect(std::filesystem::exists(killed), "no process was killed");

  const auto refuses = [&](const sweep::Space& searched, const sweep::RunOptions& asked,
                           const std::string& why) {
    const std::string said = error_of([&] { sweep::run(session, searched, measure_task, asked); });
    expect(said.find(why) != std::string::npos, said + " and not " + why);
  };
  refuses(space_of({{"y", "0.0..1.0"}}), {}, "y");
  refuses(space, {.metric = "text"}, "has no number \"text\"");
  refuses(space, {.search = {.stop = sweep::StopRule::asha, .first_rung = 1}}, "no stop rule can end it");
  return wrong;
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, {measure_task}, client); }
