#include "lockstep/train/planning/place_of_run.h"

#include <ranges>

#include "lockstep/io/address.h"
#include "lockstep/record/damaged_log.h"
#include "lockstep/record/event_kinds.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::train {

namespace fs = std::filesystem;

std::string seen_by_run(const std::string& path, const std::vector<record::Event>& events) {
  if (io::is_address(path)) return path;
  std::error_code none;
  for (const record::Event& event : events | std::views::reverse) {
    if (event.kind != record::Environment::kind) continue;
    const std::string folder = record::text(event, "working_folder");
    const fs::path whole = (fs::path(folder) / path).lexically_normal();
    if (!folder.empty() && fs::exists(whole, none)) return whole.string();
  }
  return path;
}

std::string seen_by_run(const std::string& path, const fs::path& run_folder) {
  const bool is_relative = !path.empty() && !io::is_address(path) && fs::path(path).is_relative();
  std::error_code none;
  if (!is_relative || !fs::exists(record::RunPaths{run_folder}.events(), none)) return path;
  std::vector<record::Event> events;
  record::read_past_damage(run_folder, [&](const record::Event& event) {
    if (event.kind == record::Environment::kind) events.push_back(event);
  });
  return seen_by_run(path, events);
}

}  // namespace lockstep::train
