#include "lockstep/studio/sweeps.h"

#include <algorithm>
#include <chrono>
#include <sys/stat.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/studio/runs.h"
#include "lockstep/sweep/fetched_sweep.h"
#include "lockstep/sweep/importance.h"
#include "lockstep/sweep/parallel_coordinates.h"
#include "lockstep/sweep/search.h"

namespace lockstep::studio {
namespace {

namespace fs = std::filesystem;

constexpr int kMostDepth = 16;
constexpr auto kLookInterval = std::chrono::seconds(1);
constexpr std::chrono::seconds kMostWait{10};  // a healthy look at many sweeps takes less
constexpr int kShareOfTime = 10;               // at most a tenth of the time is spent on looking

// Folders of sweeps below one. Does not look into sweeps, runs and hidden folders.
void find_sweeps(const fs::path& folder, int depth, std::map<std::string, fs::path>& found) {
  std::error_code none;
  if (fs::exists(sweep::SweepPaths{folder}.spec(), none)) {
    found.emplace(id_of(folder), folder);
    return;
  }
  if (depth == kMostDepth || fs::exists(folder / "events", none)) return;
  for (fs::directory_iterator at(folder, none), end; !none && at != end; at.increment(none)) {
    if (at->is_directory(none) && !at->is_symlink(none) && !at->path().filename().native().starts_with('.'))
      find_sweeps(at->path(), depth + 1, found);
  }
}

std::string time_of(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return "-";
  return std::to_string(status.st_size) + "@" + std::to_string(status.st_mtim.tv_sec) + "." +
         std::to_string(status.st_mtim.tv_nsec);
}

double seconds_of(const fs::path& file) {
  struct stat status {};
  return ::stat(file.c_str(), &status) != 0 ? 0 : static_cast<double>(status.st_mtim.tv_sec);
}

Json json_of(const sweep::Parameter& parameter) {
  Json json{{"name", parameter.name},
            {"number", parameter.is_number()},
            {"log", parameter.log},
            {"text", text_of(parameter)}};
  if (!parameter.choices.empty()) json["choices"] = parameter.choices;
  return json;
}

// What was trained is shown too of a sweep whose options do not go together.
int64_t planned_trials(const sweep::SweepSpec& spec) {
  try {
    return sweep::Search(spec.space, spec.search()).count();
  } catch (const Error&) {
    return spec.options.count;
  }
}

Json head_of(const sweep::Table& table) {
  std::map<std::string, int64_t> states;
  for (const sweep::Row& row : table.rows) ++states[state_of(row)];
  const sweep::SweepOptions& options = table.spec.options;
  Json json{{"metric", table.spec.metric()},
            {"maximize", table.spec.maximizes()},
            {"search", enum_names(options.search)[static_cast<size_t>(options.search)]},
            {"going_on", table.is_going_on},
            {"trials", table.rows.size()},
            {"count", planned_trials(table.spec)},
            {"states", states}};
  if (const sweep::Row* best = table.best())
    json["best"] = {{"trial", best->trial}, {"result", *best->value}};
  return json;
}

}  // namespace

std::unique_lock<std::timed_mutex> Sweeps::begin_looking() {
  std::unique_lock lock(looking_, kMostWait);
  if (!lock)
    throw Error(ErrorCode::timeout, "a folder of sweeps does not answer",
                "another request has waited for it for " + std::to_string(kMostWait.count()) + " s");
  return lock;
}

// With looking_.
void Sweeps::look() {
  if (Clock::now() < next_look_) return;
  const auto began = Clock::now();
  std::map<std::string, fs::path> found;
  for (const fs::path& root : roots_) find_sweeps(fs::absolute(root).lexically_normal(), 0, found);
  std::erase_if(known_, [&](const auto& one) { return !found.contains(one.first); });
  next_look_ = Clock::now() + std::max<Clock::duration>(kLookInterval, (Clock::now() - began) * kShareOfTime);
  const std::lock_guard lock(mutex_);
  folders_ = std::move(found);
}

// With looking_.
Json Sweeps::about(const std::string& id, const fs::path& folder) {
  Known& known = known_[id];
  const sweep::SweepPaths paths{folder};
  Known found{.about = {{"id", id},
                        {"name", name_of(roots_, folder)},
                        {"folder", folder.string()},
                        {"changed", std::max(seconds_of(paths.spec()), seconds_of(paths.log()))}}};
  try {
    found.signature = time_of(paths.spec()) + time_of(paths.log()) + time_of(paths.notes()) +
                      (sweep::is_worked_on(paths) ? "+" : "-");
    if (known.signature == found.signature) return known.about;
    found.about.update(head_of(tables_.listed_table_of(id, paths)));
  } catch (const Error& error) {
    found.about["error"] = error.message();
    // The next look tries again. A damaged file is read again when it has changed: it may be long.
    if (error.code() != ErrorCode::corrupt_data) found.signature.clear();
  }
  known = std::move(found);
  return known.about;
}

Json Sweeps::list() {
  const auto looking = begin_looking();
  look();
  std::map<std::string, fs::path> folders;
  {
    const std::lock_guard lock(mutex_);
    folders = folders_;
  }
  Json all = Json::array();
  for (const auto& [id, folder] : folders) all.push_back(about(id, folder));
  return all;
}

std::optional<fs::path> Sweeps::find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = folders_.find(id);
  return found == folders_.end() ? std::nullopt : std::optional(found->second);
}

sweep::SweepPaths Sweeps::paths_of(const std::string& id) {
  auto folder = find(id);
  if (!folder) {
    const auto looking = begin_looking();
    look();
    folder = find(id);
  }
  if (!folder)
    throw Error(ErrorCode::not_found, "there is no such sweep",
                "it may have been removed; the list has all sweeps");
  return {*std::move(folder)};
}

namespace {

// Where each row stands by its result, for pages that sort: [group, place]. The groups stay in their order
// (rank_of), also where the worst is first.
Json places_of(const sweep::Table& table) {
  std::vector<std::pair<sweep::RowRank, size_t>> order;
  const bool maximize = table.spec.maximizes();
  for (const sweep::Row& row : table.rows) order.emplace_back(rank_of(row, maximize), order.size());
  std::sort(order.begin(), order.end());
  Json places(order.size(), Json());
  for (size_t place = 0; place < order.size(); ++place)
    places[order[place].second] = Json::array({order[place].first.first, place});
  return places;
}

}  // namespace

Json about_sweep(const std::string& name, const sweep::SweepPaths& paths, const sweep::Table& table) {
  Json json = head_of(table);
  json["name"] = name;
  json["folder"] = paths.folder.string();
  json["command"] = table.spec.command;
  json["options"] = to_json(table.spec.options);
  json["not_reproducible"] = not_reproducible_text(table.spec);
  const auto from = sweep::fetched_from(paths);
  json["copy_of"] = from ? from->sweep : "";
  std::error_code none;
  json["has_report"] = fs::is_regular_file(paths.report(), none);
  Json& parameters = json["parameters"] = Json::array();
  for (const sweep::Parameter& one : table.spec.space.parameters()) parameters.push_back(json_of(one));
  Json& rows = json["rows"] = Json::array();
  for (const sweep::Row& row : table.rows) {
    Json one = sweep::json_of(row, /*space=*/{});  // without numbers: a page shows the words of a list
    if (table.spec.trains()) one["run"] = id_of(paths.trial(row.trial));
    rows.push_back(std::move(one));
  }
  json["places"] = places_of(table);
  Json& importances = json["importances"] = Json::array();
  for (const sweep::Importance& one : sweep::importances(table)) importances.push_back(to_json(one));
  json["few_trials"] = sweep::kFewTrials;
  json["parallel"] = to_json(sweep::parallel_coordinates(table));
  return json;
}

}  // namespace lockstep::studio
