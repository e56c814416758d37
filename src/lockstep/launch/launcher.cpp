#include "lockstep/launch/launcher.h"

#include <algorithm>
#include <array>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/hash.h"

namespace lockstep::launch {
namespace {

using Variable = std::function<const char*(const char*)>;

constexpr int64_t kMostRanks = 1 << 20;
constexpr int64_t kMostPort = 65535;
// Below the ports that Linux assigns automatically, from 32768 on.
constexpr uint64_t kFirstJobPort = 20000;
constexpr uint64_t kJobPorts = 10000;

std::string text_of(const Variable& variable, const char* name) {
  const char* text = variable(name);
  return text == nullptr ? "" : text;
}

constexpr const char* kHint =
    "start it with a launcher that sets it, such as lockstep run or torchrun, or unset the launcher's "
    "variables to run without one";

[[noreturn]] void refuse(const char* name, const std::string& text, const std::string& why,
                         const char* hint = kHint) {
  throw Error(ErrorCode::invalid_option,
              std::string("the environment variable ") + name +
                  (text.empty() ? " is missing: " : " cannot be \"" + text + "\": ") + why,
              hint);
}

int64_t number_of(const Variable& variable, const char* name, int64_t least, int64_t most) {
  const std::string text = text_of(variable, name);
  const auto value = parse_number<int64_t>(text);
  if (value && *value >= least && *value <= most) return *value;
  refuse(name, text, "it must be a number from " + std::to_string(least) + " to " + std::to_string(most));
}

// The names of one kind of launcher for its variables.
struct Names {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* job = "";        ///< equal on all ranks, and of no other job on these machines
  const char* nodes = "";      ///< names of the machines, rank 0's first
  const char* step = "";       ///< name of the variable for the job step
  const char* submitter = "";  ///< Launch::submitter
};

// In this order, because an mpirun that works through srun passes srun's variables on.
constexpr std::array<Names, 4> kLaunchers{{
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    // In an allocation of Slurm the list begins with the first machine; only the ranks on other machines are
    // in a step.
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", "SLURM_JOB_NODELIST"},
    // MPICH's and Intel's mpirun; srun --mpi=pmi2 sets the first two as well.
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"},
    // Set in a step only: a batch script that calls a program without srun is no rank.
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_JOB_ID",
     "SLURM_STEP_NODELIST", "SLURM_STEP_ID", "SLURM_LAUNCH_NODE_IPADDR"},
}};

const Names* launcher_of(const Variable& variable) {
  const Names& first = kLaunchers.front();
  if (variable(first.rank) != nullptr || variable(first.size) != nullptr) return &first;
  const auto tells_rank = [&](const Names& names) {
    return variable(names.rank) != nullptr && variable(names.size) != nullptr;
  };
  auto found = std::find_if(kLaunchers.begin(), kLaunchers.end(), [&](const Names& names) {
    return tells_rank(names) && variable(names.local_rank) != nullptr;
  });
  if (found == kLaunchers.end()) found = std::find_if(kLaunchers.begin(), kLaunchers.end(), tells_rank);
  return found == kLaunchers.end() ? nullptr : &*found;
}

// Slurm writes "4" or "4(x2)", or a list if the machines have different numbers. Then the first machine
// counts.
int64_t local_size_of(const Variable& variable, const char* name, int64_t size) {
  std::string text = text_of(variable, name);
  if (text.empty()) return 1;
  text.resize(std::min(text.size(), text.find_first_of("(,")));
  return number_of([&](const char*) { return text.c_str(); }, name, 1, size);
}

// "node[07-12,20],other" is a list; its first machine is node07.
std::string first_node(const std::string& list) {
  const size_t end = list.find_first_of("[,");
  if (end == std::string::npos || list[end] == ',') return list.substr(0, end);
  const size_t number = list.find_first_of("-,]", end);
  return number == std::string::npos ? "" : list.substr(0, end) + list.substr(end + 1, number - end - 1);
}

void find_meeting_place(const Variable& variable, const Names& names, Launch& launch) {
  launch.address = text_of(variable, "MASTER_ADDR");
  if (!launch.address.empty()) return;
  const bool has_job = *names.job != '\0';
  if (has_job && launch.local_size == launch.size) {
    launch.address = "127.0.0.1";
    return;
  }
  launch.address = first_node(text_of(variable, names.nodes));
  launch.submitter = text_of(variable, names.submitter);
  if (!launch.address.empty()) return;
  if (has_job)
    refuse("MASTER_ADDR", "", "the ranks are on several machines and meet there",
           "set it for all ranks to the name or address of rank 0's machine: mpirun -x MASTER_ADDR=NAME ...");
  refuse("MASTER_ADDR", "", "the ranks meet there");
}

uint16_t port_of(const Variable& variable, const Names& names) {
  if (*names.job == '\0' || variable("MASTER_PORT") != nullptr)
    return static_cast<uint16_t>(number_of(variable, "MASTER_PORT", 1, kMostPort));
  std::string job = text_of(variable, names.job);
  if (job.empty())
    refuse("MASTER_PORT", "", "the launcher does not name its job",
           "set it for all ranks to a free port of rank 0's machine: mpiexec -genv MASTER_PORT 29500 ...");
  job += "." + text_of(variable, names.step);
  // A job that Slurm starts again has the same numbers, and ranks of its last start may still listen.
  if (const char* restart = variable("SLURM_RESTART_COUNT"); restart != nullptr)
    job += std::string(".") + restart;
  return static_cast<uint16_t>(kFirstJobPort + hash_of(job) % kJobPorts);
}

constexpr size_t kLeastSecret = 16;  // characters

std::string secret_of(const Variable& variable) {
  const char* text = variable("LOCKSTEP_SECRET");
  if (text == nullptr) return "";
  const std::string secret = text;
  if (secret.size() >= kLeastSecret) return secret;
  throw Error(ErrorCode::invalid_option,
              "the environment variable LOCKSTEP_SECRET has " + std::to_string(secret.size()) +
                  " characters, of at least " + std::to_string(kLeastSecret) + ": it could be guessed",
              "export LOCKSTEP_SECRET=$(openssl rand -hex 32), the same for all ranks, or unset it");
}

bool is_slurms(const Names& names) { return std::string_view(names.rank) == "SLURM_PROCID"; }

// A step with one task is often a shell, in which each command is on its own (srun --pty bash, salloc). Jobs
// and commands of Lockstep's tell their ranks more.
bool may_be_a_shell(const Variable& variable, const Names& names, int64_t size) {
  return size == 1 && is_slurms(names) && variable("LOCKSTEP_STOPPED_STATUS") == nullptr &&
         variable("LOCKSTEP_LOST_STATUS") == nullptr;
}

}  // namespace

std::set<std::string, std::less<>> launcher_variables(const Variable& variable) {
  if (launcher_of(variable) == nullptr) return {};
  std::set<std::string, std::less<>> names{"MASTER_ADDR",
                                           "MASTER_PORT",
                                           "TORCHELASTIC_USE_AGENT_STORE",
                                           "TORCHELASTIC_RESTART_COUNT",
                                           "LOCKSTEP_LOST_STATUS",
                                           "LOCKSTEP_STOPPED_STATUS"};
  for (const Names& launcher : kLaunchers)
    names.insert({launcher.rank, launcher.size, launcher.local_rank, launcher.local_size});
  return names;
}

bool is_in_slurm_step(const Variable& variable) {
  const Names& slurms = kLaunchers.back();
  return variable(slurms.rank) != nullptr && variable(slurms.size) != nullptr;
}

std::optional<Launch> read_launch(const Variable& variable) {
  const Names* names = launcher_of(variable);
  if (names == nullptr) return std::nullopt;
  Launch launch;
  launch.size = number_of(variable, names->size, 1, kMostRanks);
  if (may_be_a_shell(variable, *names, launch.size)) return std::nullopt;
  launch.rank = number_of(variable, names->rank, 0, launch.size - 1);
  launch.local_size = local_size_of(variable, names->local_size, launch.size);
  launch.local_rank =
      variable(names->local_rank) == nullptr ? 0 : number_of(variable, names->local_rank, 0, launch.size - 1);
  find_meeting_place(variable, *names, launch);
  launch.port = port_of(variable, *names);
  launch.agent_store = text_of(variable, "TORCHELASTIC_USE_AGENT_STORE") == "True";
  launch.attempt =
      variable("TORCHELASTIC_RESTART_COUNT") == nullptr
          ? 0
          : number_of(variable, "TORCHELASTIC_RESTART_COUNT", 0, std::numeric_limits<int32_t>::max());
  launch.interface = text_of(variable, "GLOO_SOCKET_IFNAME");
  launch.secret = secret_of(variable);
  launch.needs_gpus = text_of(variable, "LOCKSTEP_FAST_MULTINODE") == "on" && launch.local_size < launch.size;
  // Another launcher may start ranks in an allocation, which have what it tells them.
  if (is_slurms(*names) && variable("SLURM_GPUS_ON_NODE") != nullptr)
    launch.gpus_here = number_of(variable, "SLURM_GPUS_ON_NODE", 0, kMostRanks);
  if (variable("LOCKSTEP_LOST_STATUS") != nullptr)
    launch.lost_status = static_cast<int>(number_of(variable, "LOCKSTEP_LOST_STATUS", 1, 255));
  if (variable("LOCKSTEP_STOPPED_STATUS") != nullptr)
    launch.stopped_status = static_cast<int>(number_of(variable, "LOCKSTEP_STOPPED_STATUS", 0, 255));
  return launch;
}

}  // namespace lockstep::launch
