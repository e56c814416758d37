// Which program trains which part of a trial, where several programs work on one sweep.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "lockstep/jobs/job_lock.h"
#include "lockstep/sweep/search.h"

namespace lockstep::sweep {

enum class Claim {
  taken,       ///< by this program
  other,       ///< another program has it
  after_death  ///< taken, after a program that was killed while it trained this part
};

/// A claim is a lock on a file, so it ends with its program, also one on another machine that shares the
/// disk. The file is not empty while its program trains: that tells a death from an end. One thread.
class Claims {
 public:
  explicit Claims(std::filesystem::path folder);
  Claim take(const Segment& segment);
  void release(const Segment& segment);

 private:
  std::filesystem::path file_of(const Segment& segment) const;

  std::filesystem::path folder_;
  std::map<Segment, jobs::FileLock> held_;
};

}  // namespace lockstep::sweep
