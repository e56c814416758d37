#include "lockstep/device/inventory.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <sched.h>
#include <thread>
#include <tuple>
#include <unistd.h>

#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/device/gpu.h"

namespace lockstep::device {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown";
}

// Folders of this process's control group, the innermost first; the limits of all levels hold.
std::vector<std::string> control_groups(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  std::vector<std::string> folders;
  while (std::getline(file, line)) {
    const auto parts = split(line, ':');
    if (parts.size() < 3) continue;
    const bool unified = parts[0] == "0";
    if (!unified && (',' + parts[1] + ',').find(',' + controller + ',') == std::string::npos) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller;
    for (std::string path = parts[2];; path = path.substr(0, path.rfind('/'))) {
      folders.push_back(root + (path == "/" ? "" : path));
      if (path.empty() || path == "/") break;
    }
  }
  return folders;
}

std::optional<double> cpu_quota() {
  std::optional<double> least;
  const auto consider = [&](double quota, double period) {
    if (quota > 0 && period > 0 && (!least || quota / period < *least)) least = quota / period;
  };
  for (const std::string& folder : control_groups("cpu")) {
    const auto parts = split(first_line_of(folder + "/cpu.max"), ' ');
    if (parts.size() == 2 && parts[0] != "max")
      consider(std::atof(parts[0].c_str()), std::atof(parts[1].c_str()));
    const std::string quota = first_line_of(folder + "/cpu.cfs_quota_us");
    if (!quota.empty())
      consider(std::atof(quota.c_str()), std::atof(first_line_of(folder + "/cpu.cfs_period_us").c_str()));
  }
  return least;
}

// The number after this word in a file of "word number" lines; 0 if there is none.
int64_t number_after(const std::string& path, const std::string& word) {
  std::ifstream file(path);
  std::string name;
  int64_t value = 0;
  std::string rest;
  while (file >> name >> value && std::getline(file, rest)) {
    if (name == word) return value;
  }
  return 0;
}

// The smallest limit of all levels of control groups and of the machine.
int64_t free_memory(int64_t limit) {
  int64_t least = limit;
  if (const int64_t available = number_after("/proc/meminfo", "MemAvailable:"); available > 0)
    least = std::min(least, available * 1024);
  for (const std::string& folder : control_groups("memory")) {
    for (const auto& [most, used, cached] :
         {std::tuple("/memory.max", "/memory.current", "inactive_file"),
          std::tuple("/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file")}) {
      const std::string allowed = first_line_of(folder + most), held = first_line_of(folder + used);
      if (allowed.empty() || allowed == "max" || held.empty()) continue;
      least = std::min<int64_t>(least, std::atoll(allowed.c_str()) - std::atoll(held.c_str()) +
                                           number_after(folder + "/memory.stat", cached));
    }
  }
  return std::max<int64_t>(0, least);
}

std::vector<std::string> vector_units() {
  std::vector<std::string> units;
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && !line.starts_with("flags")) {
  }
  const auto flags = split(line, ' ');
  for (const char* unit : {"avx2", "fma", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16",
                           "amx_bf16", "amx_int8"}) {
    if (std::find(flags.begin(), flags.end(), unit) != flags.end()) units.emplace_back(unit);
  }
  return units;
}

}  // namespace

int64_t memory_limit() {
  int64_t least = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (const std::string& folder : control_groups("memory")) {
    for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
      const std::string text = first_line_of(folder + name);
      if (!text.empty() && text != "max") least = std::min<int64_t>(least, std::atoll(text.c_str()));
    }
  }
  return least;
}

Inventory inspect() {
  Inventory inventory;
  inventory.processor = processor_name();
  inventory.cores_online = std::max<int64_t>(1, sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  int64_t cores = inventory.cores_online;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
    cores = std::min<int64_t>(cores, CPU_COUNT(&allowed));
  if (cores < inventory.cores_online)
    inventory.cores_reason = "the affinity mask allows " + std::to_string(cores);
  if (const auto quota = cpu_quota(); quota && std::ceil(*quota) < static_cast<double>(cores)) {
    cores = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(*quota)));
    inventory.cores_reason = "the control group allows " + fixed(*quota, 1);
  }
  inventory.cores = cores;
  inventory.vector_units = vector_units();
  inventory.memory_bytes = memory_limit();
  inventory.free_memory_bytes = free_memory(inventory.memory_bytes);
  const GpuState& gpus = inspect_gpus();
  inventory.gpus = gpus.gpus;
  inventory.gpu_note = gpus.note;
  inventory.gpu_hint = gpus.hint;
  return inventory;
}

}  // namespace lockstep::device
