// A client that opens a pool of its default profile and obeys the words on its standard input, one a line
// (pool_faults_test.py): where, print, silence, workers, quit. It answers each with a line.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include <unistd.h>

#include "lockstep/base/host.h"
#include "lockstep/pool/run.h"

using namespace lockstep;
using namespace lockstep::pool;

namespace {

struct Where {
  std::string host{};
  int64_t process = 0;
  int64_t sum = 0;
  std::string variable{};
  std::string secret{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("host", self.host, "");
    field("process", self.process, "");
    field("sum", self.sum, "of all ranks' numbers, from 1");
    field("variable", self.variable, "that the client gave to workers");
    field("secret", self.secret, "a variable of the client that the profile names");
  };
};

Where where(Worker& worker) {
  const at::Tensor number = at::full({1}, static_cast<double>(worker.rank() + 1), at::kDouble);
  worker.comm().all_reduce({number}, comm::Reduction::sum);
  const auto text = [](const char* name) {
    return std::string(std::getenv(name) == nullptr ? "none" : std::getenv(name));
  };
  return {.host = host_name(),
          .process = ::getpid(),
          .sum = static_cast<int64_t>(number.item<double>()),
          .variable = text("GIVEN_TO_WORKERS"),
          .secret = text("KEY_OF_A_STORE")};
}

void print(Worker& worker) {
  std::printf("out %lld\n", static_cast<long long>(worker.rank()));
  std::fprintf(stderr, "err %lld\n", static_cast<long long>(worker.rank()));
}

// Until its process is killed or its call is cancelled.
void silence(Worker& worker) {
  while (!worker.stop_token().stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

constexpr auto where_task = task<where>("where");
constexpr auto print_task = task<print>("print");
constexpr auto silence_task = task<silence>("silence");

void obey(Session& session, const std::string& word) {
  const Pool pool = session.open_pool({.environment = {"GIVEN_TO_WORKERS=given"}});
  if (word == "where") {
    for (const Where& one : pool.spmd(where_task))
      std::printf("%s %lld %lld %s %s;", one.host.c_str(), static_cast<long long>(one.process),
                  static_cast<long long>(one.sum), one.variable.c_str(), one.secret.c_str());
  }
  if (word == "print") pool.spmd(print_task);
  if (word == "silence") pool.spmd(silence_task);
  if (word == "workers") {
    for (const WorkerInfo& info : pool.workers())
      std::printf("%s %lld %s;", info.host.c_str(), static_cast<long long>(info.process), info.cores.c_str());
  }
}

void client(Session& session) {
  for (std::string word; std::getline(std::cin, word) && word != "quit";) {
    try {
      obey(session, word);
      std::printf("done\n");
    } catch (const Error& error) {
      std::string text = error.what();
      for (char& letter : text) letter = letter == '\n' ? ' ' : letter;
      std::printf("failed: %s\n", text.c_str());
    }
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, {where_task, print_task, silence_task}, client); }
