// The commands on pools that programs have open.
#include <chrono>
#include <set>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/jobs/open_pools.h"

namespace lockstep::cli {
namespace {

using jobs::PoolRecord;

constexpr std::chrono::seconds kMostClosing{60};
constexpr std::chrono::milliseconds kClosingLook{100};

std::string gpu_text(const jobs::WorkerInfo& worker) {
  if (worker.gpu < 0) return "-";
  return std::to_string(worker.gpu) + (worker.gpu_name.empty() ? "" : " (" + worker.gpu_name + ")");
}

std::string text_of_pool(const PoolRecord& pool) {
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::vector<std::vector<std::string>> rows{{"worker", "state", "host", "process", "cores", "GPU"}};
  for (const jobs::WorkerInfo& worker : pool.workers)
    rows.push_back({std::to_string(worker.index),
                    !worker.ready ? "starts"
                    : worker.busy ? "busy"
                                  : "free",
                    worker.host, std::to_string(worker.process), worker.cores, gpu_text(worker)});
  return "pool " + printable(pool.id) + ": " + with_commas(static_cast<int64_t>(pool.workers.size())) + " " +
         printable(pool.kind) + " of the profile " + printable(pool.profile) + ", open for " +
         as_duration(now - pool.opened) + "\n  by " + printable(pool.program) + ", process " +
         std::to_string(pool.process) + " on " + printable(pool.host) + "\n" + in_columns(rows, "rllrll");
}

bool is_pool_open(const std::filesystem::path& folder, const std::string& id) {
  for (const PoolRecord& pool : jobs::open_pools(folder)) {
    if (pool.id == id) return true;
  }
  return false;
}

}  // namespace

std::vector<FieldInfo> pools_fields() { return fields_of<JsonOutput>(); }

int run_pools(const Call& call, Console& console) {
  const std::vector<PoolRecord> pools = jobs::open_pools(jobs::pools_folder());
  if (settings_of<JsonOutput>(call).json) {
    Json list = Json::array();
    for (const PoolRecord& pool : pools) list.push_back(to_json(pool));
    console.print(list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return 0;
  }
  std::string text;
  for (const PoolRecord& pool : pools) text += (text.empty() ? "" : "\n") + text_of_pool(pool);
  console.print(text.empty() ? "no pool is open\n" : text);
  return 0;
}

int run_pool_close(const Call& call, Console& console) {
  const std::filesystem::path folder = jobs::pools_folder();
  const std::set<std::string> ids(call.words.begin(), call.words.end());
  for (const std::string& id : ids) jobs::ask_to_close_pool(folder, id);
  const auto until = std::chrono::steady_clock::now() + kMostClosing;
  for (const std::string& id : ids) {
    while (is_pool_open(folder, id)) {
      if (std::chrono::steady_clock::now() > until)
        throw Error(ErrorCode::timeout, "the program of pool " + quote(id) + " does not close it",
                    "it may be suspended; lockstep pools names its process");
      std::this_thread::sleep_for(kClosingLook);
    }
    console.print("pool " + printable(id) + " is closed\n");
  }
  return 0;
}

}  // namespace lockstep::cli
