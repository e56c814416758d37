#include "lockstep/cloud/aws.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/random_hex.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/cloud/cluster_power.h"
#include "lockstep/cloud/internal/cluster_profile.h"
#include "lockstep/cloud/internal/package_file.h"
#include "lockstep/cloud/internal/stack_failure.h"
#include "lockstep/cloud/parallel_cluster.h"
#include "lockstep/cloud/yaml.h"
#include "lockstep/cluster/profile.h"
#include "lockstep/download/sha256.h"

namespace lockstep::cloud {
namespace {

constexpr size_t kIdBytes = 8;
constexpr auto kLookPause = std::chrono::seconds(5);
// Of types that have several network cards, of which a public address is not possible.
constexpr std::array<std::string_view, 5> kManyCards{"p4d.", "p4de.", "p5.", "p5en.", "p6-b200."};

void check_stop(const Watch& watch, const std::string& what, const std::string& hint) {
  if (watch.stop.stop_requested()) throw Error(ErrorCode::cancelled, "stopped " + what, hint);
}

// Ends at once at a stop.
void pause(const Watch& watch, const std::string& what, const std::string& hint) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, watch.stop, kLookPause, [] { return false; });
  check_stop(watch, "waiting for " + what, hint);
}

ClusterIdentity identity_of(const ClusterRecord& record) {
  return {.name = record.name,
          .id = record.id,
          .package_file = record.package_file,
          .package_sha256 = record.package_sha256,
          .subnet = record.subnet};
}

bool is_over(const std::string& stack) { return !stack.ends_with("_IN_PROGRESS"); }

// A cluster costs money, also while nothing can be written.
void try_write(const Watch& watch, const std::string& goes_on, const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) throw;
    watch.show({.text = error.message() + "; " + goes_on + " all the same", .is_warning = true});
  }
}

void check_cards(const ClusterRequest& request, const ClusterPlan& plan) {
  const bool many = std::any_of(kManyCards.begin(), kManyCards.end(),
                                [&](std::string_view family) { return plan.type.starts_with(family); });
  if (many && request.workers_subnet.empty())
    throw Error(ErrorCode::invalid_option,
                "--type " + plan.type +
                    " needs --workers-subnet (SubnetIds of ParallelCluster): its machines have "
                    "several network cards, and AWS gives such machines no public address",
                "name a private subnet with a NAT gateway: --workers-subnet subnet-...");
}

}  // namespace

ClusterPlan AwsProvider::plan(const ClusterRequest& request) {
  check_request(request);
  const PlanRequest asked = plan_request_of(request);
  if (request.prices == "live") return make_plan(asked, live_prices(bridge_, request.region));
  return make_plan(asked, request.prices.empty() ? price_snapshot() : read_prices(request.prices));
}

std::string AwsProvider::manifest(const std::string& name, const ClusterRequest& request) {
  check_cluster_name(name);
  const ClusterPlan planned = plan(request);
  ClusterIdentity identity{.name = name, .id = "0000000000000000"};
  identity.subnet = request.subnet.empty() ? "subnet-00000000" : request.subnet;
  if (!request.package.empty()) {
    identity.package_file = std::filesystem::path(request.package).filename();
    identity.package_sha256 = download::sha256_of_file(request.package);
  }
  return "# What lockstep cloud create " + name +
         " hands to ParallelCluster. Nothing was asked or started.\n" +
         to_yaml(cluster_config(request, planned, identity));
}

ClusterRecord AwsProvider::create(const std::string& name, const ClusterRequest& request,
                                  const Watch& watch) {
  check_cluster_name(name);
  const ClusterPlan planned = plan(request);
  check_cards(request, planned);
  cluster::Profiles::of_user().check_not_hidden(name);
  // From here on until AWS has the cluster: one that is removed meanwhile would be made unseen.
  std::optional<jobs::FileLock> making = records_.lock(name);
  if (records_.has(name))
    throw Error(
        ErrorCode::invalid_option, "this machine made a cluster " + quote(name) + " already",
        "lockstep cloud wait " + name + " goes on with it, lockstep cloud remove " + name + " removes it");
  ClusterRecord record{.name = name, .id = random_hex(kIdBytes)};
  record.request = request;
  record.request.type = record.type = planned.type;
  // start and resize read them again, from any folder.
  if (!request.prices.empty() && request.prices != "live")
    record.request.prices = std::filesystem::absolute(request.prices).string();
  record.machines = planned.machines;
  record.request.package = package_file(request.package, !planned.gpu.empty());
  record.package_file = std::filesystem::path(record.request.package).filename();
  record.package_sha256 = download::sha256_of_file(record.request.package, watch.stop);
  record.dollars_per_hour = planned.dollars_per_hour;
  record.dollars_per_hour_stopped = planned.dollars_per_hour_stopped;
  watch.show({"asking AWS"});
  const Json found = bridge_.ask("preflight", request.region,
                                 {{"type", planned.type},
                                  {"machines", planned.machines},
                                  {"spot", request.spot},
                                  {"subnet", request.subnet},
                                  {"key", request.key},
                                  {"vcpus", planned.vcpus},
                                  {"head_type", request.head_type}});
  const std::string stack = bridge_.ask("state", request.region, {{"name", name}}).value("stack", "");
  if (!stack.empty() && stack != "DELETE_COMPLETE")
    throw Error(
        ErrorCode::invalid_option,
        "AWS has a stack " + quote(name) + " in " + request.region + " already (" + printable(stack) + ")",
        "choose another name; lockstep cloud list --region " + request.region + " shows the clusters there");
  check_stop(watch, "before anything was made", "");
  record.subnet = found.value("subnet", "");
  record.request.key = found.value("key", "");
  record.created = now_seconds();
  set_running(record, true, record.created);
  records_.save(record);  // from here on, remove finds everything
  watch.show({"copying " + record.package_file});
  put_files(record);
  check_stop(watch, "before the cluster was made", "lockstep cloud remove " + name + " removes its bucket");
  watch.show({"starting"});
  bridge_.parallel_cluster(
      {"create-cluster", "--cluster-name", name, "--cluster-configuration", write_config(record).string()},
      request.region);
  making.reset();
  return wait(name, watch);
}

void AwsProvider::put_files(const ClusterRecord& record) {
  const std::filesystem::path script = records_.folder_of(record.name) / "bootstrap.sh";
  write_file_atomic(script, bootstrap_script());
  bridge_.ask(
      "put", record.request.region,
      {{"name", record.name},
       {"id", record.id},
       {"files",
        {{"bootstrap.sh", {{"path", script.string()}}},
         {record.package_file, {{"path", std::filesystem::absolute(record.request.package).string()}}}}}});
}

std::filesystem::path AwsProvider::write_config(const ClusterRecord& record) {
  const std::filesystem::path file = records_.folder_of(record.name) / "parallelcluster.yaml";
  write_file_atomic(file, to_yaml(cluster_config(record.request, plan(record.request), identity_of(record))));
  return file;
}

// Throws if a stack of the record's name is not the record's. A record without an id stands for any cluster
// of Lockstep's.
void AwsProvider::check_owner(const Json& state, const ClusterRecord& record) const {
  const Json tags = state.value("tags", Json::object());
  if (!tags.contains(kClusterTag))
    throw Error(
        ErrorCode::cluster,
        "the stack " + quote(record.name) + " is not Lockstep's: it does not have the tag " + kClusterTag,
        "remove it with the program that made it");
  if (record.id.empty() || tags.value(kIdTag, record.id) == record.id) return;
  throw Error(
      ErrorCode::cluster,
      "the stack " + quote(record.name) + " is of another cluster: its tag " + kIdTag + " is " +
          quote(printable(tags.value(kIdTag, ""))) + ", not " + quote(record.id),
      "the machine that made it removes it; of this machine's own there are at most the bucket lockstep-" +
          record.id + " and the folder " + quote(records_.folder_of(record.name).string()) +
          ", which you may remove");
}

// What has ended in AWS is to be written, so another command is waited for.
jobs::FileLock AwsProvider::wait_for_lock(const std::string& name, const Watch& watch) const {
  while (true) {
    if (auto lock = records_.try_lock(name)) return *std::move(lock);
    watch.show({"waiting for another command on the cluster"});
    pause(watch, "another command on the cluster " + quote(name),
          "lockstep cloud wait " + name + " goes on with it");
  }
}

// Of a cluster that another command may have removed.
void AwsProvider::save_failure(const std::string& name, const std::string& stack) const {
  if (!records_.has(name)) return;
  ClusterRecord record = records_.find(name);
  if (stack == "UPDATE_ROLLBACK_COMPLETE") {
    set_resize(record, {}, now_seconds());  // the cluster is as before
  } else {
    record.phase = ClusterPhase::failed;
  }
  records_.save(record);
}

AwsProvider::Settled AwsProvider::wait_for_stack(const ClusterRecord& record, const std::string& wanted,
                                                 const Watch& watch) {
  std::optional<jobs::FileLock> changing;
  while (true) {
    Json state = bridge_.ask("state", record.request.region, {{"name", record.name}});
    const std::string stack = state.value("stack", "");
    watch.show({stack.empty() ? "gone" : lower(stack), state.value("ready", int64_t{0}),
                state.value("resources", int64_t{0})});
    if (!stack.empty()) check_owner(state, record);
    if (!is_over(stack)) {
      changing.reset();
      pause(watch, "the cluster " + quote(record.name),
            "it goes on in AWS: lockstep cloud wait " + record.name);
      continue;
    }
    if (!changing) {  // its holder may have begun a change since AWS was asked, so AWS is asked again
      changing = wait_for_lock(record.name, watch);
      continue;
    }
    if (stack == wanted || stack == "UPDATE_COMPLETE") return {std::move(state), *std::move(changing)};
    save_failure(record.name, stack);
    if (stack.empty())
      throw Error(ErrorCode::cluster, "AWS has no stack of the cluster " + quote(record.name),
                  "lockstep cloud remove " + record.name + " removes what is left of it");
    throw creation_error(state, record);
  }
}

void AwsProvider::write_profile(const ClusterRecord& record, const ClusterPlan& planned,
                                const Json& machines) {
  cluster::Profile profile =
      slurm_profile(planned, login_of(record.name, login_user(record.request.os), machines_of(machines)));
  if (const int64_t idle = parse_seconds(record.request.idle, "idle"); idle > 0) profile.idle_limit = idle;
  profile.host_key = host_key(record.name, record.request.region);
  cluster::Profiles::of_user().save(record.name, profile);
}

std::string AwsProvider::host_key(const std::string& name, const std::string& region) const {
  const std::string now = bridge_.ask("host_key", region, {{"name", name}}).value("key", "");
  if (!now.empty()) return now;
  // A machine that starts again may say it no more, and has the same key.
  for (const cluster::NamedProfile& known : cluster::Profiles::of_user().list()) {
    if (known.name == name) return known.profile.host_key;
  }
  return "";
}

void AwsProvider::adopt(const std::string& name, const std::string& region) {
  std::vector<std::string> names;
  for (const ClusterStatus& status : list(region)) {
    names.push_back(status.name);
    if (status.name != name) continue;
    const PlanRequest machines{.gpus = status.workers, .type = status.type, .region = region};
    cluster::Profile profile =
        slurm_profile(make_plan(machines, price_snapshot()), login_of(name, status.user, status.machines));
    profile.host_key = host_key(name, region);
    cluster::Profiles::of_user().save(name, profile);
    return;
  }
  throw Error(ErrorCode::not_found, "there is no cluster " + quote(name) + " in " + region,
              names.empty() ? "there is none with Lockstep's tag" : "there is " + join(names, ", "));
}

std::vector<ClusterStatus> AwsProvider::list(const std::string& region) {
  std::vector<ClusterStatus> found;
  const Json answer = bridge_.ask("discover", region, Json::object());
  for (const Json& one : answer["clusters"])
    found.push_back({.name = one.value("name", ""),
                     .id = one.value("id", ""),
                     .stack = one.value("stack", ""),
                     .machines = machines_of(one["machines"]),
                     .type = one.value("type", ""),
                     .workers = one.value("workers", int64_t{0}),
                     .user = one.value("user", "")});
  return found;
}

ClusterRecord AwsProvider::start(const std::string& name, const Watch& watch) {
  records_.find(name);  // before there is a lock of a cluster that is not there
  const jobs::FileLock changing = records_.lock(name);
  ClusterRecord record = records_.find(name);
  const std::string region = record.request.region;
  // What can fail here comes before anything is switched on.
  const ClusterPlan planned = plan(record.request);
  cluster::Profiles::of_user().check_not_hidden(name);
  set_running(record, true, now_seconds());  // it may cost from now on
  records_.save(record);
  watch.show({"starting the head node"});
  const Json answer = bridge_.ask("power", region, {{"name", name}, {"on", true}});
  record.phase = ClusterPhase::running;
  records_.save(record);
  write_profile(record, planned, answer["machines"]);  // it has another address
  watch.show({"starting the workers"});
  bridge_.parallel_cluster({"update-compute-fleet", "--cluster-name", name, "--status", "START_REQUESTED"},
                           region);
  return record;
}

ClusterRecord AwsProvider::stop(const std::string& name, const Watch& watch) {
  records_.find(name);
  std::optional<jobs::FileLock> changing;
  try_write(watch, "the machines are turned off", [&] { changing = records_.lock(name); });
  ClusterRecord record = records_.find(name);
  const std::string region = record.request.region;
  watch.show({"asking jobs to save"});
  for (const cluster::NamedProfile& known : cluster::Profiles::of_user().list()) {
    if (known.name != name || known.profile.login.empty()) continue;
    // A stop that waits for what cannot be reached would go on costing.
    if (const std::string why = save_jobs(known.profile); !why.empty())
      watch.show({.text = "jobs were not asked to save: " + why, .is_warning = true});
  }
  watch.show({"stopping the workers"});
  // Without this, too, the machines are turned off: what runs goes on costing.
  try {
    bridge_.parallel_cluster({"update-compute-fleet", "--cluster-name", name, "--status", "STOP_REQUESTED"},
                             region);
  } catch (const Error& error) {
    watch.show({.text = error.message() + "; the machines are turned off all the same", .is_warning = true});
  }
  watch.show({"stopping the head node"});
  bridge_.ask("power", region, {{"name", name}, {"on", false}});
  set_running(record, false, now_seconds());
  record.phase = ClusterPhase::stopped;
  records_.save(record);
  return record;
}

void AwsProvider::remove_stack(const ClusterRecord& record, const std::string& region, const Watch& watch) {
  const std::string& name = record.name;
  Json state = bridge_.ask("state", region, {{"name", name}});
  if (state.value("stack", "").empty()) return;
  check_owner(state, record);
  if (state.value("stack", "") != "DELETE_IN_PROGRESS")
    bridge_.parallel_cluster({"delete-cluster", "--cluster-name", name}, region);
  while (true) {
    state = bridge_.ask("state", region, {{"name", name}});
    const std::string stack = state.value("stack", "");
    if (stack.empty() || stack == "DELETE_COMPLETE") return;
    watch.show({lower(stack), state.value("ready", int64_t{0}), state.value("resources", int64_t{0})});
    if (stack == "DELETE_FAILED") throw removal_error(state, name);
    pause(watch, "the removal of " + quote(name),
          "it goes on in AWS: repeat the command to see what is left");
  }
}

void AwsProvider::remove(const std::string& name, const std::string& region, const Watch& watch) {
  constexpr const char* kGoesOn = "the cluster is removed";
  std::optional<jobs::FileLock> removing;
  try_write(watch, kGoesOn, [&] { removing = records_.lock(name); });
  const bool known = records_.has(name);
  ClusterRecord record{.name = name};
  if (known) record = records_.find(name);
  if (!known && region.empty()) records_.find(name);  // says which there are
  const std::string where = known ? record.request.region : region;
  if (!region.empty() && region != where)
    throw Error(ErrorCode::invalid_option,
                "the cluster " + quote(name) + " is in " + where + ", not in " + region,
                "leave out --region");
  if (known) {
    record.phase = ClusterPhase::removing;
    try_write(watch, kGoesOn, [&] { records_.save(record); });
  }
  watch.show({"removing"});
  remove_stack(record, where, watch);
  const Json answer = bridge_.ask("sweep", where, {{"name", name}, {"id", record.id}});
  const auto left = answer["left"].get<std::vector<std::string>>();
  if (!left.empty())
    throw Error(ErrorCode::cluster,
                "these still have the tag " + std::string(kClusterTag) + "=" + name + ": " +
                    printable(join(left, ", ")),
                "repeat the command in a few minutes; what is listed goes on costing");
  const auto regions = answer["elsewhere"].get<std::vector<std::string>>();
  if (!regions.empty())
    throw Error(ErrorCode::not_found,
                "there is no cluster " + quote(name) + " in " + where + ", and there is one in " +
                    printable(join(regions, ", ")),
                "lockstep cloud remove " + name + " --region " + printable(regions.front()));
  if (!known) return;
  records_.remove(name);
  const cluster::Profiles profiles = cluster::Profiles::of_user();
  for (const cluster::NamedProfile& profile : profiles.list()) {
    if (profile.name == name && profile.profile.partition == kPartition) profiles.remove(name);
  }
}

}  // namespace lockstep::cloud
