#include "lockstep/sweep/internal/trial_output.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::sweep {
namespace {

// Of the beginning, and of the end. Multiples of it are left out: file systems release whole blocks.
constexpr int64_t kKept = int64_t{1} << 20;
constexpr int64_t kPart = 64 * kKept;  // read at once, while nobody looks at other trials
constexpr std::chrono::milliseconds kLookInterval{100};

}  // namespace

TrialOutput::TrialOutput(std::filesystem::path file, std::string name)
    : file_(std::move(file)), name_(std::move(name)), left_out_(kKept) {}

bool TrialOutput::look(std::chrono::steady_clock::time_point now) {
  if (now < next_look_) return false;
  if (middle() >= kPart && leave_out(kPart)) return true;
  next_look_ = now + kLookInterval;
  return false;
}

// No more than there is now: others may print on.
ResultReader TrialOutput::finish() {
  if (const int64_t bytes = middle(); bytes > 0) leave_out(bytes);
  return reader_;
}

void TrialOutput::release() {
  name_.clear();
  finish();
}

// The bytes that can be left out now. Begins anew with a file that its program has emptied.
int64_t TrialOutput::middle() {
  struct stat status {};
  if (!may_release_ || ::stat(file_.c_str(), &status) != 0) return 0;
  if (status.st_size < std::max(left_out_, reader_.at())) {
    reader_ = {};
    left_out_ = kKept;
  }
  return (status.st_size - kKept - left_out_) / kKept * kKept;
}

// Returns false if it cannot be done now.
bool TrialOutput::leave_out(int64_t bytes) {
  try {
    const OpenFile file(file_, O_RDWR);
    if (!name_.empty()) {
      reader_.read_until(file, left_out_ + bytes, name_);
      if (reader_.at() < left_out_ + bytes) return false;  // it was emptied meanwhile
    }
    if (::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, left_out_, bytes) != 0) {
      may_release_ = errno != EOPNOTSUPP && errno != ENOSYS;
      return false;
    }
  } catch (const Error&) {  // the reader of the result says what is wrong
    return false;
  }
  left_out_ += bytes;
  return true;
}

}  // namespace lockstep::sweep
