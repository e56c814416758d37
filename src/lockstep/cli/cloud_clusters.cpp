// Clusters in the cloud: made, listed, changed and removed.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <unistd.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/cloud_text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/cloud/aws_bridge.h"
#include "lockstep/cloud/cluster_power.h"
#include "lockstep/cloud/provider.h"

namespace lockstep::cli {
namespace {

using cloud::ClusterRecord;
using cloud::ClusterRecords;

constexpr int kBarCells = 24;

struct CreateChoice {
  std::string provider = "aws";
  bool dry_run = false;
  bool yes = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Creating");
    field("provider", self.provider, "aws, or kubernetes (only with --dry-run)");
    field("dry-run", self.dry_run, "print the configuration and start nothing");
    field("yes", self.yes, "create without a question");
  };
};

struct YesChoice {
  bool yes = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Removing");
    field("yes", self.yes, "remove without a question");
  };
};

struct RegionChoice {
  std::string region;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Where");
    field("region", self.region, "region of AWS; empty: that of the clusters that this machine made");
  };
};

struct ResizeChoice {
  int64_t workers = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Machines");
    field("workers", self.workers, "number of workers from now on", also("gpus", between(1, 4096)));
  };
};

// One line on a terminal, overwritten; elsewhere a line for each change.
class CloudLine {
 public:
  explicit CloudLine(Console& console) : console_(console) {}
  ~CloudLine() {
    if (shown_ && console_.note_can_redraw()) console_.note("\r\033[K");
  }
  CloudLine(const CloudLine&) = delete;
  CloudLine& operator=(const CloudLine&) = delete;

  void show(const cloud::Progress& progress) {
    std::string text = printable(progress.text);
    if (progress.all > 0)
      text += " " + std::to_string(progress.done) + " of " + std::to_string(progress.all) + " parts";
    if (progress.is_warning) {
      console_.note((console_.note_can_redraw() ? "\r\033[K" : "") + ("warning: " + text) + "\n");
      return;
    }
    if (!console_.note_can_redraw()) {
      if (text != last_) console_.note(text + "\n");
      last_ = text;
      return;
    }
    std::string bar;
    if (progress.all > 0) {
      const auto full = static_cast<size_t>(kBarCells * progress.done / progress.all);
      bar = "[" + std::string(full, '#') + std::string(kBarCells - full, '.') + "] ";
    }
    console_.note("\r" + bar + text + ", " + as_duration(std::floor(seconds_since(start_))) + "\033[K");
    shown_ = true;
  }

 private:
  Console& console_;
  bool shown_ = false;
  std::string last_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Runs a change with its progress and Ctrl-C.
int with_progress(Console& console, const std::function<void(const cloud::Watch&)>& work) {
  launch::StopSignals signals("stopping after this request; press Ctrl-C again to kill");
  try {
    CloudLine line(console);
    work({.show = [&](const cloud::Progress& progress) { line.show(progress); }, .stop = signals.token()});
    return 0;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::cancelled || signals.signal() == 0) throw;
    console.note(error.message() + (error.hint().empty() ? "" : "; " + error.hint()) + "\n");
    return launch::kSignalStatus + signals.signal();
  }
}

bool is_agreed(Console& console, const std::string& question) {
  if (::isatty(STDIN_FILENO) != 1)
    throw Error(ErrorCode::invalid_option, "nobody can be asked: " + question,
                "add --yes to go on without a question");
  console.note(question + " [y/N] ");
  std::string answer;
  for (int c = std::getchar(); c != EOF && c != '\n'; c = std::getchar()) answer += static_cast<char>(c);
  return lower(answer) == "y" || lower(answer) == "yes";
}

std::string limits_text(const cloud::ClusterRequest& request) {
  const int64_t idle = cloud::parse_seconds(request.idle, "idle");
  std::string text = idle > 0 ? "it stops after " + as_duration(static_cast<double>(idle)) +
                                    " without a step, a validation or a checkpoint"
                              : "nothing stops it when it is idle";
  return text +
         (request.budget > 0 ? ", or when it has cost " + as_dollars(request.budget) : ", and has no budget");
}

std::string used_text(const std::string& name) {
  return "  lockstep cluster default " + name + "     makes it the default\n  lockstep cloud stop " + name +
         "          stops it; lockstep cloud remove " + name + " removes it\n";
}

std::string machines_text(const std::vector<cloud::Machine>& machines) {
  int64_t on = 0;
  std::string head = "-";
  for (const cloud::Machine& machine : machines) {
    if (machine.is_head)
      head = machine.state;
    else if (machine.state == "running" || machine.state == "pending")
      ++on;
  }
  return "head " + head + ", " + counted(on, "worker") + " on";
}

struct Listed {
  ClusterRecord record;
  bool is_known = false;  // this machine made it
  cloud::ClusterStatus status{};
};

// What this machine remembers, and what AWS says in these regions.
std::vector<Listed> listed_in(const std::vector<ClusterRecord>& records,
                              const std::vector<std::string>& regions) {
  std::vector<Listed> all;
  for (const ClusterRecord& record : records) all.push_back({record, true, {.name = record.name}});
  const auto provider = cloud::make_provider("aws");
  for (const std::string& region : regions) {
    for (const cloud::ClusterStatus& status : provider->list(region)) {
      const auto known = std::find_if(all.begin(), all.end(), [&](const Listed& one) {
        return one.record.name == status.name && one.record.request.region == region;
      });
      if (known != all.end()) {
        known->status = status;
        continue;
      }
      ClusterRecord record{.name = status.name, .id = status.id};
      record.request.region = region;
      all.push_back({record, false, status});
    }
  }
  return all;
}

std::vector<std::string> regions_of(const std::vector<ClusterRecord>& records, const std::string& asked) {
  if (!asked.empty()) return {asked};
  std::vector<std::string> regions;
  for (const ClusterRecord& record : records) {
    if (std::find(regions.begin(), regions.end(), record.request.region) == regions.end())
      regions.push_back(record.request.region);
  }
  return regions;
}

// A stack is complete whether its machines are on or not, and the watchdog, or another machine of the user,
// may have stopped or started them.
std::string phase_in_cloud(const Listed& one) {
  using cloud::ClusterPhase;
  const ClusterPhase phase = one.record.phase;
  const std::string known = enum_names(phase)[static_cast<size_t>(phase)];
  if (one.status.stack.empty()) return known + ", not in AWS";
  const bool can_be_off = !one.is_known || phase == ClusterPhase::running || phase == ClusterPhase::stopped;
  if (can_be_off && is_stopped(one.status.machines)) return "stopped";
  if (!one.is_known) return lower(one.status.stack);
  const std::string head = head_state(one.status.machines);
  return can_be_off && (head == "running" || head == "pending") ? "running" : known;
}

std::string cloud_state_of(const Listed& one) {
  const int64_t workers = one.record.resize.workers;
  return phase_in_cloud(one) + (workers == 0 ? "" : ", resize to " + counted(workers, "worker") + " begun");
}

Json json_of(const Listed& one, double now) {
  Json machines = Json::array();
  for (const cloud::Machine& machine : one.status.machines)
    machines.push_back(
        {{"id", machine.id}, {"type", machine.type}, {"state", machine.state}, {"head", machine.is_head}});
  return {{"name", one.record.name},
          {"region", one.record.request.region},
          {"known", one.is_known},
          {"phase", enum_names(cloud::ClusterPhase{})[static_cast<size_t>(one.record.phase)]},
          {"stack", one.status.stack},
          {"state", cloud_state_of(one)},
          {"type", one.record.type},
          {"machines", machines},
          {"most_dollars", one.is_known ? most_dollars(one.record, now) : 0}};
}

std::string stopped_text(const ClusterRecord& record) {
  return printable(record.name) + " is stopped; its disks go on costing " +
         as_dollars(record.dollars_per_hour_stopped) + " an hour\n  lockstep cloud start " + record.name +
         " starts it again, lockstep cloud remove " + record.name + " removes it\n";
}

int start_in_cloud(const std::string& name, Console& console) {
  const int status = with_progress(
      console, [&](const cloud::Watch& watch) { cloud::make_provider("aws")->start(name, watch); });
  if (status == 0) console.print(name + " runs; its profile has the new address\n");
  return status;
}

int stop_in_cloud(const std::string& name, Console& console) {
  ClusterRecord record;
  const int status = with_progress(
      console, [&](const cloud::Watch& watch) { record = cloud::make_provider("aws")->stop(name, watch); });
  if (status == 0) console.print(stopped_text(record));
  return status;
}

}  // namespace

std::vector<FieldInfo> cloud_create_fields() {
  return fields_of<cloud::ClusterRequest>() + fields_of<CreateChoice>();
}
std::vector<FieldInfo> cloud_list_fields() { return fields_of<RegionChoice>() + fields_of<JsonOutput>(); }
std::vector<FieldInfo> cloud_resize_fields() { return fields_of<ResizeChoice>() + fields_of<YesChoice>(); }
std::vector<FieldInfo> cloud_remove_fields() { return fields_of<RegionChoice>() + fields_of<YesChoice>(); }

int run_cloud_create(const Call& call, Console& console) {
  const std::string& name = call.words.front();
  const auto choice = settings_of<CreateChoice>(call);
  const auto request = settings_of<cloud::ClusterRequest>(call);
  const auto provider = cloud::make_provider(choice.provider);
  if (choice.dry_run) {
    console.print(provider->manifest(name, request));
    return 0;
  }
  if (choice.provider != "aws") provider->create(name, request, {});
  cloud::check_cluster_name(name);
  const cloud::ClusterPlan plan = provider->plan(request);
  console.print(cloud_plan_text(plan, console.table_width()) + "  " + limits_text(request) + "\n");
  if (!choice.yes && !is_agreed(console, "create " + name + " for up to " +
                                             as_dollars(plan.dollars_per_hour) + " an hour?")) {
    console.note("nothing was created\n");
    return 1;
  }
  const int status =
      with_progress(console, [&](const cloud::Watch& watch) { provider->create(name, request, watch); });
  if (status == 0) console.print("\n" + name + " is ready, and is a profile:\n" + used_text(name));
  return status;
}

int run_cloud_wait(const Call& call, Console& console) {
  const std::string& name = call.words.front();
  const int status = with_progress(
      console, [&](const cloud::Watch& watch) { cloud::make_provider("aws")->wait(name, watch); });
  if (status == 0) console.print(name + " is ready, and is a profile:\n" + used_text(name));
  return status;
}

int run_cloud_list(const Call& call, Console& console) {
  const std::vector<ClusterRecord> records = ClusterRecords::of_user().list();
  const std::string region = settings_of<RegionChoice>(call).region;
  const std::vector<Listed> all = listed_in(records, regions_of(records, region));
  const double now = now_seconds();
  if (settings_of<JsonOutput>(call).json) {
    Json list = Json::array();
    for (const Listed& one : all) list.push_back(json_of(one, now));
    console.print(list.dump(2) + "\n");
    return 0;
  }
  if (all.empty()) {
    console.print(
        "there are no clusters" + (region.empty() ? " that this machine made" : " in " + region) +
        "\n  hint: lockstep cloud plan aws shows what one would be; --region asks AWS about others\n");
    return 0;
  }
  std::vector<std::vector<std::string>> rows{
      {"name", "region", "machines", "state", "on now", "an hour", "cost at most"}};
  bool is_resizing = false;
  for (const Listed& one : all) {
    const ClusterRecord& record = one.record;
    is_resizing |= record.resize.workers > 0;
    rows.push_back({record.name, record.request.region,
                    one.is_known ? std::to_string(record.machines) + " x " + record.type : "made elsewhere",
                    cloud_state_of(one), machines_text(one.status.machines),
                    one.is_known ? as_dollars(most_dollars_per_hour(record)) : "-",
                    one.is_known ? as_dollars(most_dollars(record, now)) : "-"});
  }
  console.print(in_columns_within(console.table_width(), rows, "lllllrr") +
                "\ncost at most: all machines while it runs, the disks while it is stopped; machines without "
                "jobs are off, and cost less\n" +
                (is_resizing ? "lockstep cloud wait NAME waits for the end of a resize\n" : ""));
  return 0;
}

int run_cloud_start(const Call& call, Console& console) {
  return start_in_cloud(call.words.front(), console);
}

int run_cloud_stop(const Call& call, Console& console) { return stop_in_cloud(call.words.front(), console); }

int run_cluster_start(const Call& call, Console& console) {
  return start_in_cloud(cloud::cluster_behind(call.words.empty() ? "" : call.words.front()), console);
}

int run_cluster_stop(const Call& call, Console& console) {
  return stop_in_cloud(cloud::cluster_behind(call.words.empty() ? "" : call.words.front()), console);
}

int run_cloud_resize(const Call& call, Console& console) {
  const std::string& name = call.words.front();
  const int64_t workers = settings_of<ResizeChoice>(call).workers;
  if (workers == 0)
    throw Error(ErrorCode::invalid_option, "--workers is missing",
                "lockstep cloud resize " + name + " --workers 16");
  const auto provider = cloud::make_provider("aws");
  cloud::ClusterRequest request = ClusterRecords::of_user().find(name).request;
  request.workers = workers;
  const cloud::ClusterPlan plan = provider->plan(request);
  const bool asks = !settings_of<YesChoice>(call).yes;
  if (asks) provider->check_resize(name);  // no question about what would be refused
  if (asks &&
      !is_agreed(console, "change " + name + " to " + std::to_string(plan.machines) + " x " + plan.type +
                              ", up to " + as_dollars(plan.dollars_per_hour) + " an hour?")) {
    console.note("nothing was changed\n");
    return 1;
  }
  const int status =
      with_progress(console, [&](const cloud::Watch& watch) { provider->resize(name, workers, watch); });
  if (status == 0)
    console.print(name + " has " + std::to_string(plan.machines) + " x " + plan.type + ", up to " +
                  as_dollars(plan.dollars_per_hour) + " an hour\n");
  return status;
}

int run_cloud_remove(const Call& call, Console& console) {
  const std::string& name = call.words.front();
  cloud::check_cluster_name(name);
  const std::string region = settings_of<RegionChoice>(call).region;
  if (!settings_of<YesChoice>(call).yes &&
      !is_agreed(console, "remove " + name + ", its disks and what is on them?")) {
    console.note("nothing was removed\n");
    return 1;
  }
  const auto provider = cloud::make_provider("aws");
  const int status =
      with_progress(console, [&](const cloud::Watch& watch) { provider->remove(name, region, watch); });
  if (status == 0)
    console.print(name + " is removed: AWS has nothing with the tag lockstep-cluster=" + name + "\n");
  return status;
}

int run_cloud_setup(const Call&, Console& console) {
  const cloud::AwsBridge bridge = cloud::AwsBridge::of_user();
  console.note("installing ParallelCluster and boto3 from PyPI ...\n");
  console.print(bridge.install().string() + " has ParallelCluster\n");
  return 0;
}

}  // namespace lockstep::cli
