// The kinds of events and their values. docs/run-folder.md has the table that kinds_markdown makes of them.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/record/event.h"

namespace lockstep::record {

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// What an attempt begins with. A run of `lockstep train` also has every value of its plan here.
struct PlanOfRun {
  static constexpr const char* kind = "plan";
  static constexpr const char* when = "at the start of an attempt";
  std::string network{};
  std::string folder{};
  std::string output{};
  int64_t steps_per_epoch = 0;
  int64_t max_epochs = 0;
  int64_t total_steps = 0;
  std::vector<std::string> classes{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("network", self.network, "name of the network");
    field("folder", self.folder, "the training data");
    field("output", self.output, "the run folder");
    field("steps_per_epoch", self.steps_per_epoch, "0: not known");
    field("max_epochs", self.max_epochs, "0: not known");
    field("total_steps", self.total_steps, "0: not known");
    field("classes", self.classes, "in label order");
  };
};

/// Where an attempt runs.
struct Environment {
  static constexpr const char* kind = "environment";
  static constexpr const char* when = "at the start of an attempt";
  std::vector<std::string> arguments{};
  std::string version{};
  std::string build{};
  std::string host{};
  int64_t process = 0;
  std::string working_folder{};
  std::string data{};
  int64_t cores = 0;
  std::vector<std::string> gpus{};
  int64_t ranks = 1;
  int64_t workers = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("arguments", self.arguments, "the command line");
    field("version", self.version, "of the program");
    field("build", self.build, "fingerprint of the arithmetic: instruction set, libraries, compiler");
    field("host", self.host, "the machine of rank 0");
    field("process", self.process, "process id of rank 0");
    field("working_folder", self.working_folder, "in which relative paths of the command line begin");
    field("data", self.data, "absolute path or address of the training data");
    field("cores", self.cores, "cores that rank 0 may use");
    field("gpus", self.gpus, "names of the GPUs that rank 0 sees");
    field("ranks", self.ranks, "number of ranks");
    field("workers", self.workers, "number of workers");
  };
};

struct Message {
  static constexpr const char* kind = "message";
  static constexpr const char* when = "something that the user should know";
  std::string text{};
  std::string level = "info";
  std::optional<int64_t> pieces{};
  std::optional<int64_t> skipped_steps{};
  std::optional<double> loss_scale{};
  std::optional<double> seconds{};
  std::optional<int64_t> computed{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("text", self.text, "");
    field("level", self.level, "`info` or `warning`");
    field("pieces", self.pieces, "if memory ran out: parts that each shard is computed in from then on");
    field("skipped_steps", self.skipped_steps, "if fp16-mixed skipped a step: their number so far");
    field("loss_scale", self.loss_scale, "and the factor of the loss from then on");
    field("seconds", self.seconds, "after features were computed: the time it took");
    field("computed", self.computed, "and the number of images that were not found in a cache");
  };
};

struct SkippedFile {
  std::string file{};
  std::string reason{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("file", self.file, "");
    field("reason", self.reason, "");
  };
};

struct Skipped {
  static constexpr const char* kind = "skipped";
  static constexpr const char* when = "at the start, with `--on-bad-sample skip`, if there are any";
  std::vector<SkippedFile> files{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("files", self.files, "each with `file` and `reason`");
  };
};

struct Shards {
  static constexpr const char* kind = "shards";
  static constexpr const char* when = "before the first step";
  std::vector<int64_t> owners{};
  std::vector<int64_t> threads{};
  int64_t buckets = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("owners", self.owners, "the worker that each shard is first given to");
    field("threads", self.threads, "the system's thread id of each worker");
    field("buckets", self.buckets, "number of parts in which gradients go to other ranks");
  };
};

struct Features {
  static constexpr const char* kind = "features";
  static constexpr const char* when = "every second while the outputs of frozen layers are computed";
  int64_t done = 0;
  int64_t all = 0;
  double seconds_left = kNone;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("done", self.done, "images");
    field("all", self.all, "images");
    field("seconds_left", self.seconds_left, "");
  };
};

struct FirstStep {
  static constexpr const char* kind = "first_step";
  static constexpr const char* when = "once in each attempt";
  double seconds = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("seconds", self.seconds, "from the start of the attempt to the end of its first step");
  };
};

struct Step {
  static constexpr const char* kind = "step";
  static constexpr const char* when = "the first ten steps, then about fifty in each epoch";
  double loss = kNone;
  double accuracy = kNone;
  double least_loss = kNone;
  int64_t least_loss_step = 0;
  double largest_loss = kNone;
  int64_t largest_loss_step = 0;
  double learning_rate = kNone;
  int64_t samples = 0;
  double images_per_second = kNone;
  double seconds_left = kNone;
  double queue_seconds = 0;
  double forward_seconds = 0;
  double backward_seconds = 0;
  double exchange_seconds = 0;
  double hidden_exchange_seconds = 0;
  double update_seconds = 0;
  double checkpoint_seconds = 0;
  std::vector<int64_t> shard_workers{};
  std::optional<std::vector<double>> worker_seconds{};
  int64_t page_faults = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("loss", self.loss, "of this mini-batch");
    field("accuracy", self.accuracy, "of this mini-batch");
    field("least_loss", self.least_loss, "since the last logged step");
    field("least_loss_step", self.least_loss_step, "its step");
    field("largest_loss", self.largest_loss, "since the last logged step; NaN counts as the largest");
    field("largest_loss_step", self.largest_loss_step, "its step");
    field("learning_rate", self.learning_rate, "");
    field("samples", self.samples, "of this mini-batch");
    field("images_per_second", self.images_per_second, "since the last logged step");
    field("seconds_left", self.seconds_left, "");
    field("queue_seconds", self.queue_seconds, "this and the next times are those of rank 0 in this step");
    field("forward_seconds", self.forward_seconds, "");
    field("backward_seconds", self.backward_seconds, "");
    field("exchange_seconds", self.exchange_seconds, "with the wait for other workers");
    field("hidden_exchange_seconds", self.hidden_exchange_seconds,
          "the exchange between ranks during `backward_seconds`");
    field("update_seconds", self.update_seconds, "");
    field("checkpoint_seconds", self.checkpoint_seconds, "since the last logged step");
    field("shard_workers", self.shard_workers, "the worker that computed each shard");
    field("worker_seconds", self.worker_seconds,
          "with `--timing` on CPUs: how long each worker of rank 0's process, and of no other, waited for "
          "samples "
          "and computed shards, without its waits for other workers");
    field("page_faults", self.page_faults, "of the process in this step");
  };
};

struct Average {
  static constexpr const char* kind = "average";
  static constexpr const char* when =
      "after an average, as often as steps are logged; after every average "
      "with `--report-score-after-averaging`";
  double score = kNone;
  double seconds = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("score", self.score, "mean loss of the replicas' last mini-batches");
    field("seconds", self.seconds, "");
  };
};

struct Validation {
  static constexpr const char* kind = "validation";
  static constexpr const char* when = "every `--validate-every` steps, and after the last step";
  double loss = kNone;
  double accuracy = kNone;
  int64_t samples = 0;
  bool best = false;
  double images_per_second = kNone;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("loss", self.loss, "on the held-out data");
    field("accuracy", self.accuracy, "on the held-out data");
    field("samples", self.samples, "");
    field("best", self.best, "whether it is the best so far");
    field("images_per_second", self.images_per_second, "");
  };
};

struct Hash {
  static constexpr const char* kind = "hash";
  static constexpr const char* when = "every `--hash-every` steps, and after the last step";
  std::string weights{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("weights", self.weights, "16 hexadecimal digits (XXH3) over all weights and statistics");
  };
};

struct Saved {
  std::string path{};
  double seconds = 0;
  bool best = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("path", self.path, "");
    field("seconds", self.seconds, "time to write it");
    field("best", self.best, "whether `best.safetensors` was written");
  };
};

struct SavedCheckpoint : Saved {
  static constexpr const char* kind = "checkpoint";
  static constexpr const char* when = "when a checkpoint has been written, except the one at the end";
};

struct SavedBest : Saved {
  static constexpr const char* kind = "best";
  static constexpr const char* when = "when `best.safetensors` was written without a checkpoint";
};

struct Stopping {
  static constexpr const char* kind = "stopping";
  static constexpr const char* when = "when a stop was requested";
  std::string text{};
  static constexpr auto describe = [](auto& self, auto&& field) { field("text", self.text, ""); };
};

struct Answer {
  static constexpr const char* kind = "request";
  static constexpr const char* when = "when a request was answered";
  std::string request{};
  std::string id{};
  std::string from{};
  std::string answer{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("request", self.request, "`stop`, `finish`, `checkpoint` or `report`");
    field("id", self.id, "name of its file");
    field("from", self.from, "who made it");
    field("answer", self.answer, "what was done");
  };
};

struct Failed {
  static constexpr const char* kind = "failed";
  static constexpr const char* when = "when an attempt ends with an error";
  std::string error{};
  std::vector<std::string> context{};
  std::string hint{};
  std::string code{};
  int64_t rank = 0;
  std::string host{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("error", self.error, "the message");
    field("context", self.context, "what was being done, innermost first");
    field("hint", self.hint, "what the user can do");
    field("code", self.code, "kind of error");
    field("rank", self.rank, "the rank that reports it");
    field("host", self.host, "its machine");
  };
};

struct End {
  static constexpr const char* kind = "end";
  static constexpr const char* when = "at the end of an attempt that was not killed and has not failed";
  std::string reason{};
  double seconds = 0;
  int64_t best_step = 0;
  std::optional<double> accuracy{};
  std::optional<double> loss{};
  std::optional<double> best_accuracy{};
  std::optional<double> test_accuracy{};
  std::optional<double> test_loss{};
  std::optional<int64_t> skipped_steps{};
  std::optional<double> loss_scale{};
  std::optional<std::string> weights_path{};
  std::optional<double> images_per_second{};
  std::optional<int64_t> skipped_checkpoints{};
  std::optional<int64_t> peak_memory_bytes{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field(
        "reason", self.reason,
        "`finished`, `patience`, `max-time`, `observer`, `request`, or `stopped`, after which the run can go "
        "on");
    field("seconds", self.seconds, "of training, all attempts");
    field("best_step", self.best_step, "");
    field("accuracy", self.accuracy, "with held-out data, as the next two");
    field("loss", self.loss, "");
    field("best_accuracy", self.best_accuracy, "");
    field("test_accuracy", self.test_accuracy, "with `--test`");
    field("test_loss", self.test_loss, "");
    field("skipped_steps", self.skipped_steps, "with `--precision fp16-mixed`");
    field("loss_scale", self.loss_scale, "");
    field("weights_path", self.weights_path, "not after a stop");
    field("images_per_second", self.images_per_second, "of this attempt without its first step");
    field("skipped_checkpoints", self.skipped_checkpoints, "due while another one was being written");
    field("peak_memory_bytes", self.peak_memory_bytes, "of rank 0's process");
  };
};

template <class T>
concept EventKind = Described<T> && requires {
  T::kind;
  T::when;
};

/// An event of this kind after `step` steps, in this epoch.
template <EventKind K>
Event event_of(const K& values, int64_t step = 0, int64_t epoch = 0) {
  return {.epoch = epoch, .step = step, .kind = K::kind, .values = lockstep::to_json(values)};
}

/// Whether a later attempt that makes the event's step again replaces the event: it does so for what was
/// measured in a step, and not for how attempts began and ended.
bool is_replaced_with_its_step(std::string_view kind);

/// The table of docs/run-folder.md, in Markdown.
std::string kinds_markdown();

}  // namespace lockstep::record
