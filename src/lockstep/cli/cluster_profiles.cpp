// The commands on profiles: where jobs run and with what.
#include <filesystem>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/cloud/provider.h"
#include "lockstep/cluster/command.h"
#include "lockstep/cluster/nodes.h"
#include "lockstep/cluster/profile.h"
#include "lockstep/jobs/job_list.h"

namespace lockstep::cli {
namespace {

using cluster::NamedProfile;
using cluster::Profile;
using cluster::Profiles;

constexpr const char* kUsualScheduler = "slurm";  // `local` is there without a profile

struct ImportChoice {
  std::string name;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Profile");
    field("name", self.name, "its name here; empty: the name of the file");
  };
};

struct DiscoverChoice {
  std::string use;
  std::string region;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Profile");
    field("use", self.use,
          "make a profile of this name for the Slurm that was found, and make it the default; with --region, "
          "the "
          "name of a cluster in AWS");
    field("region", self.region, "ask AWS for clusters of lockstep cloud in this region; empty: ask nobody");
  };
};

std::string machines_text(const Profile& profile) {
  if (profile.scheduler == "local") return "this machine";
  std::string text = counted(profile.nodes, "node");
  if (profile.workers > 0) text += ", " + counted(profile.workers, "worker");
  if (profile.gpus > 0) text += ", " + counted(profile.gpus, "GPU") + " each";
  return text;
}

Json json_of(const NamedProfile& found) {
  Json json{{"name", found.name}, {"default", found.is_default}};
  if (!found.file.empty()) json["file"] = found.file.string();
  if (!found.damage.empty())
    json["error"] = found.damage;
  else
    json["profile"] = to_json(found.profile);
  return json;
}

// Only what differs from a profile without any setting.
std::vector<std::vector<std::string>> settings_rows(const Profile& profile) {
  std::vector<std::vector<std::string>> rows;
  for (const FieldInfo& field : fields_of<Profile>()) {
    const std::string text = field_text(profile, field.name);
    if (text != field.default_text || field.name == "scheduler") rows.push_back({field.name, text});
  }
  return rows;
}

Profile profile_of(const cluster::Partition& partition) {
  Profile profile;
  profile.scheduler = "slurm";
  profile.partition = partition.name;
  profile.gpus = partition.gpus;
  return profile;
}

int discover_in_cloud(const std::string& region, const std::string& use, Console& console) {
  const auto provider = cloud::make_provider("aws");
  const std::vector<cloud::ClusterStatus> found = provider->list(region);
  for (const cloud::ClusterStatus& status : found)
    console.print("aws  " + printable(status.name) + ": " + counted(status.workers, "worker") + " on " +
                  printable(status.type) + ", " + printable(lower(status.stack)) + "\n");
  if (found.empty()) console.print("aws  none: no cluster in " + region + " has Lockstep's tag\n");
  if (use.empty()) return 0;
  provider->adopt(use, region);
  Profiles::of_user().set_default(use);
  console.print("profile " + use + " is the default\n");
  return 0;
}

}  // namespace

std::vector<FieldInfo> cluster_list_fields() { return fields_of<JsonOutput>(); }
std::vector<FieldInfo> cluster_create_fields() {
  std::vector<FieldInfo> fields = fields_of<Profile>();
  for (FieldInfo& field : fields) {
    if (field.name == "scheduler") field.default_text = kUsualScheduler;
  }
  return fields;
}
std::vector<FieldInfo> cluster_import_fields() { return fields_of<ImportChoice>(); }
std::vector<FieldInfo> cluster_discover_fields() { return fields_of<DiscoverChoice>(); }

int run_cluster_list(const Call& call, Console& console) {
  const std::vector<NamedProfile> all = Profiles::of_user().list();
  for (const NamedProfile& one : all) {
    if (!one.damage.empty()) console.note("warning: " + printable(one.damage) + "\n");
  }
  if (settings_of<JsonOutput>(call).json) {
    Json list = Json::array();
    for (const NamedProfile& one : all) list.push_back(json_of(one));
    console.print(list.dump(2) + "\n");
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"name", "", "scheduler", "login", "machines", "file"}};
  for (const NamedProfile& one : all) {
    const bool is_damaged = !one.damage.empty();
    rows.push_back({printable(one.name), one.is_default ? "*" : "", is_damaged ? "?" : one.profile.scheduler,
                    one.profile.login, is_damaged ? "unreadable" : machines_text(one.profile),
                    printable(one.file.string())});
  }
  console.print(in_columns_within(console.table_width(), rows, "llllll"));
  return 0;
}

int run_cluster_show(const Call& call, Console& console) {
  const NamedProfile found = Profiles::of_user().find(call.words.empty() ? "" : call.words.front());
  const std::vector<cluster::Node> nodes = cluster::nodes_of(found.profile);
  if (settings_of<JsonOutput>(call).json) {
    Json json = json_of(found);
    for (const cluster::Node& node : nodes)
      json["nodes"].push_back({{"host", node.host},
                               {"state", node.state},
                               {"cores", node.cores},
                               {"memory_mb", node.memory_mb},
                               {"gpus", cluster::gpus_in_gres(node.gpus)},
                               {"reason", node.reason}});
    console.print(json.dump(2) + "\n");
    return 0;
  }
  console.print(printable(jobs::shown_profile(found.name)) + (found.is_default ? " (default)" : "") + "\n");
  console.print(in_columns_within(console.table_width(), settings_rows(found.profile), "ll"));
  std::vector<std::vector<std::string>> rows{{"host", "state", "cores", "memory", "GPUs", "reason"}};
  for (const cluster::Node& node : nodes)
    rows.push_back({node.host, node.state, with_commas(node.cores),
                    node.memory_mb > 0 ? as_bytes(node.memory_mb << 20) : "-",
                    node.gpus.empty() ? "-" : node.gpus, node.reason.empty() ? "-" : printable(node.reason)});
  console.print("\n" + in_columns_within(console.table_width(), rows, "llrrll"));
  return 0;
}

int run_cluster_create(const Call& call, Console& console) {
  auto profile = settings_of<Profile>(call);
  if (!call.text_of("scheduler")) profile.scheduler = kUsualScheduler;
  const std::filesystem::path file = Profiles::of_user().save(call.words.front(), profile);
  console.print("profile " + call.words.front() + ": " + file.string() + "\n  lockstep cluster validate " +
                call.words.front() + " tries it\n");
  return 0;
}

int run_cluster_default(const Call& call, Console& console) {
  const Profiles profiles = Profiles::of_user();
  if (!call.words.empty()) profiles.set_default(call.words.front());
  console.print(printable(profiles.default_name()) + "\n");
  return 0;
}

int run_cluster_remove(const Call& call, Console& console) {
  Profiles::of_user().remove(call.words.front());
  console.print("removed the profile " + call.words.front() + "\n");
  return 0;
}

int run_cluster_export(const Call& call, Console& console) {
  const NamedProfile found = Profiles::of_user().find(call.words.front());
  const std::string text = to_json(found.profile).dump(2) + "\n";
  if (call.words.size() == 1) {
    console.print(text);
    return 0;
  }
  write_file_atomic(call.words[1], text);
  console.print(printable(call.words[1]) + "\n");
  return 0;
}

int run_cluster_import(const Call& call, Console& console) {
  const std::filesystem::path from = call.words.front();
  const Profile profile = cluster::read_profile(from);
  const std::string chosen = settings_of<ImportChoice>(call).name;
  const std::string name = chosen.empty() ? from.stem().string() : chosen;
  const Profiles profiles = Profiles::of_user();
  for (const NamedProfile& one : profiles.list()) {
    if (one.name == name && to_json(one.profile) != to_json(profile))
      throw Error(ErrorCode::invalid_option, "there is another profile " + quote(name),
                  "give this one a name: --name " + name +
                      "-2; or remove the other: lockstep cluster remove " + name);
  }
  console.print("profile " + name + ": " + profiles.save(name, profile).string() + "\n");
  return 0;
}

int run_cluster_discover(const Call& call, Console& console) {
  const std::string name = settings_of<DiscoverChoice>(call).use;
  const std::string region = settings_of<DiscoverChoice>(call).region;
  if (!region.empty()) return discover_in_cloud(region, name, console);
  const cluster::Node here = cluster::nodes_of({}).front();
  console.print("local  this machine, " + here.host + ", with " + counted(here.cores, "core") + "\n");
  if (!cluster::has_program("sinfo")) {
    if (!name.empty())
      throw Error(ErrorCode::not_found, "there is no Slurm on this machine: it has no command sinfo",
                  "lockstep cluster create " + name + " --login user@host makes a profile of one elsewhere");
    console.print("slurm  none: this machine has no command sinfo\n");
    return 0;
  }
  const std::vector<cluster::Partition> partitions = cluster::slurm_partitions();
  const cluster::Partition* chosen = nullptr;
  for (const cluster::Partition& partition : partitions) {
    console.print("slurm  partition " + printable(partition.name) +
                  (partition.is_default ? " (default)" : "") + ": " + counted(partition.nodes, "node") +
                  " of at least " + counted(partition.cores, "core") + ", " + counted(partition.gpus, "GPU") +
                  " each, time limit " + printable(partition.time) + "\n");
    if (chosen == nullptr || partition.is_default) chosen = &partition;
  }
  if (name.empty() || chosen == nullptr) return 0;
  const Profiles profiles = Profiles::of_user();
  const std::filesystem::path file = profiles.save(name, profile_of(*chosen));
  profiles.set_default(name);
  console.print("profile " + name + " is the default: " + file.string() + "\n");
  return 0;
}

}  // namespace lockstep::cli
