// What ranks on several hosts tell each other besides their calls: that they are alive, that they leave, and
// why the group broke. A star of sockets around rank 0, with one thread in each rank.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/comm/internal/socket.h"

namespace lockstep::comm {

/// The members of the line.
struct Members {
  int64_t rank = 0;                ///< this rank
  std::vector<std::string> names;  ///< of each rank, for messages: "rank 1 (process 17) on node-b"
  std::string token;               ///< a process that does not know it is not a member
};

/// Any thread may call any member.
class ControlLine {
 public:
  /// socket: rank 0's listens, the others' are connected to it. broken: called once, on any thread, when the
  /// group breaks. Throws io.
  ControlLine(Members members, Descriptor socket, std::function<void()> broken);
  ControlLine(const ControlLine&) = delete;
  ControlLine& operator=(const ControlLine&) = delete;
  /// Tells the others, for a second at most, that this rank leaves or why it failed.
  ~ControlLine();

  const std::string& name_of(int64_t rank) const { return members_.names[static_cast<size_t>(rank)]; }

  /// Breaks the group; the first reason stays.
  void fail(const std::string& reason);
  /// Why the group is broken; empty while it is not. The second waits up to this long for a reason.
  std::string failure() const;
  std::string failure_within(std::chrono::milliseconds time) const;

  /// Whether a rank has ended without breaking the group.
  bool has_left(int64_t rank) const;

 private:
  struct Line;
  void run();
  bool is_hub() const { return members_.rank == 0; }
  void take_line();
  bool read(Line& line);
  bool obey(Line& line, const char* record);
  bool write(Line& line);
  void lost(const Line& line);
  void beat();
  void tell(uint32_t kind, int64_t rank, const std::string& text);
  void tell_news();
  bool all_is_said() const;
  void wake() const;

  const Members members_;
  Descriptor socket_;
  const std::function<void()> broken_;
  int wake_ = -1;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::string failure_;
  std::vector<bool> left_;
  bool leaving_ = false;

  std::vector<Line> lines_;  // used by the thread only, like the following
  size_t greeted_ = 0;       // number of ranks that have sent their hello
  bool told_failure_ = false;
  bool told_leaving_ = false;
  std::thread thread_;
};

}  // namespace lockstep::comm
