// The tasks of the tests of pools, and the session that they share. pool_test_main.cpp has the main function,
// because the program is its own worker.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <torch/utils.h>

#include "lockstep/device/random_scope.h"
#include "lockstep/pool/run.h"

namespace lockstep::pool {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

/// main sets it, for all tests of the program.
inline Session* session = nullptr;

enum class Mood { calm, wild };
constexpr std::array<const char*, 2> enum_names(Mood) { return {"calm", "wild"}; }

struct Part {
  int64_t number = 0;
  at::Tensor values{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("number", self.number, "");
    field("values", self.values, "");
  };
};

struct Everything {
  bool flag = false;
  int64_t count = 0;
  double number = 0;
  std::string text{};
  Mood mood = Mood::calm;
  std::vector<int64_t> counts{};
  std::vector<double> numbers{};
  std::vector<std::string> texts{};
  at::Tensor values{};
  at::Tensor nothing{};
  Part part{};
  std::vector<Part> parts{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("flag", self.flag, "");
    field("count", self.count, "");
    field("number", self.number, "");
    field("text", self.text, "");
    field("mood", self.mood, "");
    field("counts", self.counts, "");
    field("numbers", self.numbers, "");
    field("texts", self.texts, "");
    field("values", self.values, "");
    field("nothing", self.nothing, "");
    field("part", self.part, "");
    field("parts", self.parts, "");
  };
};

struct Number {
  double value = 0;
  static constexpr auto describe = [](auto& self, auto&& field) { field("value", self.value, ""); };
};

struct Place {
  int64_t rank = 0;
  int64_t size = 0;
  double sum = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("rank", self.rank, "");
    field("size", self.size, "");
    field("sum", self.sum, "");
  };
};

struct Note {
  int64_t rank = 0;
  int64_t index = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("rank", self.rank, "");
    field("index", self.index, "");
  };
};

struct Fate {
  std::string what{};
  int64_t rank = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("what", self.what, "");
    field("rank", self.rank, "");
  };
};

inline Everything echo(Worker&, const Everything& input) {
  Everything result = input;
  if (result.values.defined()) result.values = result.values * 2;
  return result;
}

inline Place place(Worker& worker, const Number& input) {
  return {
      worker.rank(), worker.size(),
      worker.comm().all_reduce(input.value * static_cast<double>(worker.rank() + 1), comm::Reduction::sum)};
}

inline Number square(Worker&, const Number& input) {
  std::this_thread::sleep_for(std::chrono::milliseconds(static_cast<int>(40 - 4 * input.value)));
  return {input.value * input.value};
}

template <class Condition>
inline void sleep_until(Worker& worker, Condition&& is_over) {
  while (!is_over()) {
    if (worker.stop_token().stop_requested()) throw Error(ErrorCode::cancelled, "woken");
    std::this_thread::sleep_for(2ms);
  }
}

inline Number nap(Worker& worker, const Number& seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds.value);
  sleep_until(worker, [&] { return std::chrono::steady_clock::now() >= end; });
  return seconds;
}

/// Waits until a file of that name exists.
struct Signal {
  std::string path{};
  static constexpr auto describe = [](auto& self, auto&& field) { field("path", self.path, ""); };
};

inline Signal await_file(Worker& worker, const Signal& signal) {
  sleep_until(worker, [&] { return std::filesystem::exists(signal.path); });
  return signal;
}

// Ignores its stop token.
inline Number sleep_tight(Worker&, const Number& seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds.value));
  return seconds;
}

inline void fail(Worker& worker, const Fate& fate) {
  if (worker.rank() == fate.rank) {
    if (fate.what == "error")
      throw with_context([] { return "while reading"; },
                         []() -> Error {
                           return {ErrorCode::io, "the disk is gone", "buy another one"};
                         });
    if (fate.what == "leave") return;
    if (fate.what == "exception") throw std::runtime_error("odd");
    if (fate.what == "torch") at::ones({2}) + at::ones({3});
    if (fate.what == "memory") at::empty({int64_t{1} << 50});
  }
  worker.comm().barrier();
}

inline void talk(Worker& worker, const Number& count) {
  for (int64_t i = 0; i < static_cast<int64_t>(count.value); ++i) worker.send(Note{worker.rank(), i});
}

inline Number all_weights(Worker& worker, const Number& seed) {
  const device::RandomScope random(
      at::kCPU, static_cast<uint64_t>(seed.value +
                                      worker.rank()));  // the engine's own generator is one for all threads
  at::Tensor weights = at::randn({300, 7});
  for (int step = 0; step < 5; ++step) {
    const at::Tensor gradients = (weights * static_cast<double>(worker.rank() + 1)).sin();
    worker.comm().all_reduce({gradients}, comm::Reduction::mean);
    worker.comm().broadcast({weights}, step % worker.size());
    weights -= 0.1 * gradients;
  }
  return {weights.sum().item<double>()};
}

// Counts steps until the client asks it to stop; the ranks agree on the last one.
inline Place until_asked(Worker& worker) {
  Place place{worker.rank(), worker.size(), 0};
  while (!worker.comm().all_reduce(worker.stop_asked(), comm::FlagReduction::or_)) {
    if (worker.rank() == 0 && place.sum == 2) worker.send(Note{});
    ++place.sum;
  }
  return place;
}

constexpr std::array<const char*, 7> kCollectives{"barrier",    "all_reduce", "broadcast",  "gather",
                                                  "all_gather", "cat",        "reduce_tree"};

// Repeats one of these until it is ended.
inline void circle(Worker& worker, const Fate& fate) {
  const at::Tensor large = at::ones({400'000});
  for (int round = 0; round < 1'000'000; ++round) {
    if (fate.what == "barrier") worker.comm().barrier();
    if (fate.what == "all_reduce") worker.comm().all_reduce({large}, comm::Reduction::mean);
    if (fate.what == "broadcast") worker.comm().broadcast({large}, round % worker.size());
    if (fate.what == "gather") worker.comm().gather(large, 0);
    if (fate.what == "all_gather") worker.comm().all_gather(large);
    if (fate.what == "cat") worker.comm().cat(large);
    if (fate.what == "reduce_tree")
      worker.comm().reduce_tree({comm::Node{single(worker.rank()), large}}, worker.size());
    if (worker.rank() == 0 && round == 2) worker.send(Note{});
  }
}

inline void die(Worker& worker, const Fate& fate) {
  if (worker.rank() != fate.rank) return worker.comm().barrier();
  std::fprintf(stderr, "first words\nthe sky is falling\n");
  if (fate.what == "abort") std::abort();
  if (fate.what == "exit") std::_Exit(3);
}

struct Text {
  std::string value{};
  static constexpr auto describe = [](auto& self, auto&& field) { field("value", self.value, ""); };
};

inline Text variable(Worker&, const Text& name) {
  const char* value = std::getenv(name.value.c_str());
  return {value == nullptr ? "not set" : value};
}

// What the client says, until it says "end".
struct Heard {
  std::vector<std::string> words{};
  static constexpr auto describe = [](auto& self, auto&& field) { field("words", self.words, ""); };
};

// What the tasks of a process share, and one that gives a tensor of it away.
struct Kept {
  at::Tensor values = at::zeros({2});
};

inline Part add_one(Worker& worker) {
  const auto kept = worker.shared<Kept>();
  kept->values += 1;
  return {.number = 1, .values = kept->values};
}

// Rank 0 fails while the others send.
inline void talk_and_fail(Worker& worker) {
  if (worker.rank() == 0) throw Error(ErrorCode::io, "gone");
  while (true) worker.send(Note{worker.rank(), 0});
}

inline Heard listen(Worker& worker) {
  Heard heard;
  while (worker.rank() == 0) {
    const auto word = worker.next_word(worker.stop_token());
    if (!word || *word == "end") break;
    heard.words.push_back(*word);
  }
  return heard;
}

constexpr auto echo_task = task<echo>("echo");
constexpr auto place_task = task<place>("place");
constexpr auto square_task = task<square>("square");
constexpr auto nap_task = task<nap>("nap");
constexpr auto await_task = task<await_file>("await_file");
constexpr auto sleep_task = task<sleep_tight>("sleep_tight");
constexpr auto fail_task = task<fail>("fail");
constexpr auto talk_task = task<talk>("talk");
constexpr auto weights_task = task<all_weights>("all_weights");
constexpr auto asked_task = task<until_asked>("until_asked");
constexpr auto circle_task = task<circle>("circle");
constexpr auto die_task = task<die>("die");
constexpr auto listen_task = task<listen>("listen");
constexpr auto add_one_task = task<add_one>("add_one");
constexpr auto talk_and_fail_task = task<talk_and_fail>("talk_and_fail");
constexpr auto variable_task = task<variable>("variable");

/// A session for each kind, so that a test of threads does not close the pool of processes.
inline Session& session_for(PoolKind kind) {
  static Session threads;
  return kind == PoolKind::threads ? threads : *session;
}

inline Pool open(PoolKind kind, int64_t workers) {
  return session_for(kind).open_pool({.kind = kind, .workers = workers, .quiet = true});
}

/// For tests that run over pools of threads and of processes, in the order of the pools' sizes: to open a
/// pool of processes takes longer than most tests.
class AnyPool : public testing::TestWithParam<PoolKind> {
 protected:
  static Pool pool(int64_t workers = 3) { return open(GetParam(), workers); }
};

/// The name of a test's PoolKind for INSTANTIATE_TEST_SUITE_P.
inline std::string kind_name(const testing::TestParamInfo<PoolKind>& info) {
  return enum_names(info.param)[static_cast<size_t>(info.param)];
}

inline Error error_from(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::internal, "nothing was thrown"};
}

}  // namespace lockstep::pool
