#include "lockstep/sweep/internal/trial_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::sweep {
namespace {

// Multiples of the blocks of file systems.
constexpr int64_t kKept = int64_t{1} << 20;   // of the beginning, and of the end
constexpr int64_t kPart = int64_t{64} << 20;  // read at once, while nobody looks at other trials
constexpr std::chrono::milliseconds kLookInterval{100};

}  // namespace

TrialOutput::TrialOutput(std::filesystem::path file, std::string name)
    : file_(std::move(file)), name_(std::move(name)), left_out_(kKept) {}

void TrialOutput::look(std::chrono::steady_clock::time_point now) {
  if (now < next_look_) return;
  const bool may_have_more = parts() > 0 && leave_out();
  if (!may_have_more) next_look_ = now + kLookInterval;
}

// No more than there are now: others may print on.
ResultReader TrialOutput::finish() {
  for (int64_t left = parts(); left > 0 && leave_out(); --left) continue;
  return std::move(reader_);
}

// That can be left out.
int64_t TrialOutput::parts() const {
  struct stat status {};
  if (!may_release_ || ::stat(file_.c_str(), &status) != 0) return 0;
  return (status.st_size - kKept - left_out_) / kPart;
}

bool TrialOutput::leave_out() {
  try {
    const OpenFile file(file_, O_RDWR);
    reader_.read_until(file, left_out_ + kPart, name_);
    may_release_ = ::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, left_out_, kPart) == 0;
  } catch (const Error&) {  // the reader of the result says what is wrong
    may_release_ = false;
  }
  left_out_ += kPart;
  return may_release_;
}

}  // namespace lockstep::sweep
