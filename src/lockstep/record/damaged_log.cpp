#include "lockstep/record/damaged_log.h"

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"

namespace lockstep::record {
namespace {

constexpr int64_t kMostDamaged = 1000;  // each costs another look at the part of the log behind it

std::string in_one_line(const Error& error) {
  std::string text;
  for (const std::string& place : error.context()) text += place + ": ";
  return text + error.message();
}

}  // namespace

std::string read_past_damage(const std::filesystem::path& run_folder, const Follower::Take& take) {
  Follower follower(run_folder);
  int64_t damaged = 0;
  std::string first;
  while (damaged < kMostDamaged) {
    try {
      follower.read_all(take);
      break;
    } catch (const Error& error) {
      if (damaged++ == 0) first = in_one_line(error);
      if (error.code() != ErrorCode::corrupt_data) return first;  // the next look would meet it again
    }
  }
  if (damaged == 0) return "";
  return first + (damaged > 1 ? "; " + counted(damaged - 1, "more damaged line") : "") +
         (damaged == kMostDamaged ? " or more" : "");
}

}  // namespace lockstep::record
