#include "lockstep/studio/runs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/base/thread_name.h"

namespace lockstep::studio {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kTick = milliseconds(200);
constexpr auto kTickWhileReading = milliseconds(1);
constexpr auto kListInterval = seconds(1);
constexpr int kListShareOfTime = 10;        // at most a tenth of the time is spent on looking
constexpr auto kListIsShown = seconds(20);  // after the last question; pages ask at each change or heartbeat
constexpr auto kRunIsShown = seconds(20);
constexpr auto kFirstRead = milliseconds(60);  // for the answer to the first question
constexpr auto kReadAtOnce = milliseconds(120);
constexpr int64_t kMostLogBytes = int64_t{512} << 20;
constexpr size_t kMostRemoved = 10'000;

Error unknown_run() {
  return {ErrorCode::not_found, "there is no such run", "it may have been removed; the list has all runs"};
}

}  // namespace

std::string id_of(const std::filesystem::path& folder) {
  return as_hex(hash_of(folder.lexically_normal().native()));
}

std::string name_of(const std::vector<std::filesystem::path>& roots, const std::filesystem::path& folder) {
  std::filesystem::path root = roots.front();
  for (const auto& candidate : roots) {
    if (!folder.lexically_relative(candidate).native().starts_with("..")) root = candidate;
  }
  const auto name = folder.lexically_normal().lexically_relative(root.lexically_normal());
  if (name.empty() || name == ".") return folder.filename().string();
  // The root is a sweep: of several, trials have the same numbers.
  const auto of_root = (root / "").lexically_normal().parent_path().filename();
  return *name.begin() == "trials" ? (of_root / name).string() : name.string();
}

Runs::Runs(std::vector<std::filesystem::path> roots, LogIndexes indexes, EventStream& events)
    : roots_(std::move(roots)), indexes_(std::move(indexes)), events_(events), asked_(Clock::now()) {
  for (std::filesystem::path& root : roots_) {
    root = std::filesystem::absolute(root).lexically_normal();
    if (!std::filesystem::is_directory(root))
      throw Error(ErrorCode::not_found, quote(root.native()) + " is not a folder", "name a folder of runs");
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

Runs::~Runs() {
  thread_.request_stop();
  changed_.notify_all();
}

void Runs::work(const std::stop_token& stop) {
  name_this_thread("studio-runs");
  auto next_look = Clock::now();
  while (!stop.stop_requested()) {
    bool list_is_shown = false;
    {
      std::unique_lock lock(mutex_);
      if (is_ready_)
        changed_.wait_for(lock, stop, is_reading_ ? kTickWhileReading : kTick, [] { return false; });
      list_is_shown = Clock::now() - asked_ < kListIsShown;
    }
    if (stop.stop_requested()) return;
    read_logs();
    if (!list_is_shown || Clock::now() < next_look) continue;
    try {
      look();
    } catch (const Error&) {  // a root that has gone may come back
    }
    next_look = Clock::now() + std::max<Clock::duration>(kListInterval, look_took_ * kListShareOfTime);
  }
}

void Runs::look() {
  const std::lock_guard looking(looking_);
  const auto began = Clock::now();
  record::RunList list = registry_.list(roots_);
  const std::lock_guard lock(mutex_);
  const int64_t version = version_ + 1;
  bool changed = list.warnings != warnings_;
  std::set<std::string> there;
  for (record::RunSummary& run : list.runs) {
    const std::filesystem::path folder = std::filesystem::path(run.folder).lexically_normal();
    const std::string id = id_of(folder);
    there.insert(id);
    Json json = to_json(run);
    json["id"] = id;
    json["name"] = name_of(roots_, folder);
    std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    Known& known = runs_[id];
    if (known.text == text) continue;
    known = {.summary = std::move(run), .folder = folder, .text = std::move(text), .version = version};
    changed = true;
  }
  std::erase_if(runs_, [&](const auto& entry) {
    if (there.contains(entry.first)) return false;
    removed_.emplace_back(version, entry.first);
    changed = true;
    return true;
  });
  warnings_ = std::move(list.warnings);
  look_took_ = Clock::now() - began;
  if (!std::exchange(is_ready_, true)) changed = true;
  if (!changed) return;
  version_ = version;
  events_.publish("runs", {{"version", version}});
}

std::string Runs::list_since(int64_t version) {
  const std::lock_guard lock(mutex_);
  asked_ = Clock::now();
  // Removals are remembered for a while.
  if (removed_.size() > kMostRemoved) removed_.erase(removed_.begin(), removed_.end() - kMostRemoved / 2);
  if (version > 0 && !removed_.empty() && version < removed_.front().first) version = 0;
  if (version < 0 || version > version_) version = 0;
  Json head{{"version", version_}, {"whole", version == 0}, {"ready", is_ready_}, {"warnings", warnings_}};
  Json& removed = head["removed"] = Json::array();
  for (const auto& [at, id] : removed_) {
    if (version > 0 && at > version && !runs_.contains(id)) removed.push_back(id);
  }
  std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();
  text += ",\"runs\":[";
  bool is_first = true;
  for (const auto& [id, run] : runs_) {
    if (run.version <= version) continue;
    if (!std::exchange(is_first, false)) text += ',';
    text += run.text;
  }
  return text + "]}";
}

std::filesystem::path Runs::folder_of(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(id);
  if (found == runs_.end()) throw unknown_run();
  return found->second.folder;
}

record::RunSummary Runs::summary_of(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = runs_.find(id);
  if (found == runs_.end()) throw unknown_run();
  return found->second.summary;
}

std::shared_ptr<RunLog> Runs::log_of(const std::string& id) {
  std::shared_ptr<RunLog> log;
  {
    const std::lock_guard lock(mutex_);
    asked_ = Clock::now();
    const auto found = runs_.find(id);
    if (found == runs_.end()) throw unknown_run();
    Watched& watched = logs_[id];
    watched.asked = Clock::now();
    if (!watched.log) watched.log = std::make_shared<RunLog>(found->second.folder, indexes_);
    log = watched.log;
    if (log->is_open()) return log;
  }
  log->open(kFirstRead);
  const std::lock_guard lock(mutex_);
  forget_logs();
  changed_.notify_all();
  return log;
}

// The one that nobody has asked for longest goes first.
void Runs::forget_logs() {
  int64_t bytes = 0;
  for (const auto& [id, watched] : logs_) bytes += watched.log->bytes();
  while (bytes > kMostLogBytes && logs_.size() > 1) {
    const auto oldest = std::min_element(logs_.begin(), logs_.end(), [](const auto& a, const auto& b) {
      return a.second.asked < b.second.asked;
    });
    bytes -= oldest->second.log->bytes();
    logs_.erase(oldest);
  }
}

void Runs::read_logs() {
  std::vector<std::pair<std::string, std::shared_ptr<RunLog>>> shown;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(logs_, [&](const auto& entry) { return !runs_.contains(entry.first); });
    for (const auto& [id, watched] : logs_) {
      if (watched.log->is_open() && Clock::now() - watched.asked < kRunIsShown)
        shown.emplace_back(id, watched.log);
    }
  }
  is_reading_ = false;
  for (const auto& [id, log] : shown) {
    if (log->read_for(kReadAtOnce)) events_.publish("run", {{"id", id}});
    if (log->is_complete())
      log->keep();
    else
      is_reading_ = true;
  }
}

}  // namespace lockstep::studio
