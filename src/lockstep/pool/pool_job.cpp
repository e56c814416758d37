#include "lockstep/pool/internal/pool_job.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/pool/internal/pool_member.h"

namespace lockstep::pool {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kBetweenStates{1};
constexpr int64_t kLogBytes = 2000;
constexpr size_t kMostLogLines = 4;

}  // namespace

class PoolJob::Watch {
 public:
  Watch(const cluster::Profile& profile, const std::string& program, fs::path folder, const PoolPlace& place)
      : scheduler_(cluster::make_scheduler(profile)),
        first_(place.first),
        submission_{.name = "lockstep-pool." + folder.parent_path().filename().string() + "." +
                            folder.filename().string(),
                    .command = {program, kMemberArgument},
                    .folders = {std::move(folder)},
                    .resources = profile,
                    .may_requeue = false,
                    .on_each_worker = true} {
    write_pool_place(submission_.folders.front(), place);
    thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }
  ~Watch() {
    thread_.request_stop();
    thread_.join();
    if (id_.empty()) return;
    try {
      scheduler_->cancel(id_);
    } catch (const Error& error) {
      std::fprintf(stderr, "warning: job %s may still run: %s\n", id_.c_str(), error.what());
    }
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  int64_t first() const { return first_; }
  int64_t size() const { return cluster::ranks_of(submission_.resources); }
  const fs::path& folder() const { return submission_.folders.front(); }

  std::optional<PoolJobNews> news() {
    const std::lock_guard lock(mutex_);
    return std::exchange(news_, std::nullopt);
  }

  void end_watching() { thread_.request_stop(); }

  std::string last_words() const {
    std::vector<std::string> lines;
    try {
      for (const std::string& line : split(scheduler_->log(folder(), kLogBytes), '\n')) {
        if (!line.empty()) lines.push_back(printable(line));
      }
    } catch (const Error&) {  // then it has none
    }
    if (lines.size() > kMostLogLines)
      lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kMostLogLines));
    return join(lines, " | ");
  }

 private:
  void tell(PoolJobNews news) {
    const std::lock_guard lock(mutex_);
    news_ = std::move(news);
  }

  void work(const std::stop_token& stop) {
    try {
      id_ = scheduler_->submit(submission_).front();
    } catch (const Error& error) {
      return tell({.refused = error});
    }
    tell({.id = id_});
    std::mutex mutex;
    std::condition_variable_any rest;
    std::unique_lock lock(mutex);
    while (!rest.wait_for(lock, stop, kBetweenStates, [] { return false; }) && !stop.stop_requested()) {
      try {
        tell({.id = id_, .standing = scheduler_->states({id_}).front()});
      } catch (const Error&) {  // it may answer the next time
      }
    }
  }

  const std::unique_ptr<cluster::Scheduler> scheduler_;
  const int64_t first_;
  const cluster::Submission submission_;
  std::string id_;  ///< the thread's, until that has ended
  std::mutex mutex_;
  std::optional<PoolJobNews> news_;
  std::jthread thread_;
};

PoolJob::PoolJob(const cluster::Profile& profile, const std::string& program, fs::path folder,
                 PoolPlace place)
    : watch_(std::make_unique<Watch>(profile, program, std::move(folder), place)) {}
PoolJob::~PoolJob() = default;

int64_t PoolJob::first() const { return watch_->first(); }
int64_t PoolJob::size() const { return watch_->size(); }
std::optional<PoolJobNews> PoolJob::news() { return watch_->news(); }
void PoolJob::is_here() {
  remove_pool_place(watch_->folder());
  watch_->end_watching();
}
std::string PoolJob::last_words() const { return watch_->last_words(); }

}  // namespace lockstep::pool
