// Work that pages start: commands of this program, each a process that outlives the server.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <sys/types.h>

#include "lockstep/base/json.h"
#include "lockstep/studio/event_stream.h"

namespace lockstep::studio {

/// What becomes of an output of more than 16 MiB.
enum class LongOutput { refused, only_end };

/// What a command that ended well has written.
struct Said {
  std::string output;
  std::string errors;  ///< warnings
};

/// Any thread.
class Commands {
 public:
  /// program: the file of the program lockstep. Publishes {"command": number} when one has started or ended.
  Commands(std::filesystem::path program, EventStream& events);
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  /// What a shell would be given: "lockstep" and the words. Throws invalid_option for a word with a zero
  /// byte, as all that start a command do.
  Json shown(const std::vector<std::string>& words) const;

  /// Starts it without a shell, in the working folder of the server. Returns its number.
  int64_t start(const std::vector<std::string>& words);

  /// What it printed on standard output, or its error (invalid_option with its text and hint). Throws timeout
  /// after this time, io for an output that is too long, and ends the process.
  std::string output_of(const std::vector<std::string>& words, std::chrono::seconds limit,
                        LongOutput long_output = LongOutput::refused) {
    return said_by(words, limit, long_output).output;
  }

  /// The same with what it wrote on standard error.
  Said said_by(const std::vector<std::string>& words, std::chrono::seconds limit,
               LongOutput long_output = LongOutput::refused);

  /// From now on output_of ends its processes and throws cancelled, also where it waits. What start() has
  /// started goes on.
  void stop_answers() { stop_.request_stop(); }

  /// {"number", "words", "started", "status", "output"}: status is absent while it runs; the output's end.
  /// Throws not_found, also for one that ended long ago: of those that have ended, the 100 are kept that
  /// were asked about last.
  Json about(int64_t number);
  /// Of all that are kept, without their outputs.
  Json list();
  /// Notices what has ended.
  void look();

 private:
  struct Command {
    std::vector<std::string> words;
    double started = 0;
    pid_t process = 0;
    std::filesystem::path output;
    std::optional<int> status;
    int64_t looked = 0;  // greater: asked about later
  };
  Json about(int64_t number, const Command& command) const;
  void drop_old();

  std::filesystem::path program_;
  EventStream& events_;
  std::filesystem::path folder_;  // for outputs
  std::mutex mutex_;
  std::map<int64_t, Command> commands_;
  int64_t next_ = 1;
  int64_t looks_ = 0;
  std::stop_source stop_;
};

}  // namespace lockstep::studio
