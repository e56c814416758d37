// Another number of workers for a cluster in AWS, and the end of a change that was begun.
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/cloud/aws.h"
#include "lockstep/cloud/internal/cluster_profile.h"
#include "lockstep/cloud/parallel_cluster.h"
#include "lockstep/cluster/profile.h"

namespace lockstep::cloud {
namespace {

// AWS takes the tag with the change, and gives it back if it takes the change back.
bool has_workers(const Json& state, int64_t workers) {
  return state.value("tags", Json::object()).value(kWorkersTag, "") == std::to_string(workers);
}

}  // namespace

// Of a cluster that can be resized. Others may have stopped or started it, so AWS is asked.
ClusterRecord AwsProvider::running_record(const std::string& name) {
  ClusterRecord record = records_.find(name);
  if (record.resize.workers > 0)
    throw Error(ErrorCode::invalid_option,
                "a resize of " + quote(name) + " to " + std::to_string(record.resize.workers) +
                    " workers was begun, and this machine does not know its end",
                "lockstep cloud wait " + name + " waits for it");
  const Json state = bridge_.ask("state", record.request.region, {{"name", name}});
  if (state.value("stack", "").empty())
    throw Error(ErrorCode::cluster, "AWS has no stack of the cluster " + quote(name),
                "lockstep cloud remove " + name + " removes what is left of it");
  check_owner(state, record);
  if (is_stopped(machines_of(state.value("machines", Json::array()))))
    throw Error(ErrorCode::invalid_option, "cannot resize " + quote(name) + ": it is stopped",
                "lockstep cloud start " + name + " starts it; resize it then");
  if (record.phase == ClusterPhase::stopped) {
    record.phase = ClusterPhase::running;
    set_running(record, true, now_seconds());
  }
  return record;
}

void AwsProvider::check_resize(const std::string& name) { running_record(name); }

ClusterRecord AwsProvider::resize(const std::string& name, int64_t workers, const Watch& watch) {
  records_.find(name);  // before there is a lock of a cluster that is not there
  std::optional<jobs::FileLock> changing = records_.lock(name);
  watch.show({"asking AWS"});
  ClusterRecord record = running_record(name);
  ClusterRecord changed = record;
  changed.request.workers = workers;
  const ClusterPlan planned = plan(changed.request);
  cluster::Profiles::of_user().check_not_hidden(name);
  const std::string config = write_config(changed).string();
  // Before it is asked for: whatever becomes of this program, the larger cluster may be there.
  set_resize(record, {.workers = workers, .dollars_per_hour = planned.dollars_per_hour}, now_seconds());
  records_.save(record);
  watch.show({"changing"});
  try {
    bridge_.parallel_cluster({"update-cluster", "--cluster-name", name, "--cluster-configuration", config},
                             record.request.region);
  } catch (const Error&) {
    forget_refused_resize(record);
    throw;
  }
  changing.reset();  // it may be stopped meanwhile
  return complete(name, wait_for_stack(record, "UPDATE_COMPLETE", watch));
}

void AwsProvider::forget_refused_resize(ClusterRecord record) {
  try {
    const Json state = bridge_.ask("state", record.request.region, {{"name", record.name}});
    if (state.value("stack", "").ends_with("_IN_PROGRESS") || has_workers(state, record.resize.workers))
      return;
    set_resize(record, {}, now_seconds());
    records_.save(record);
  } catch (const Error&) {
    return;  // it is not known whether AWS has begun the change, and its price counts
  }
}

ClusterRecord AwsProvider::wait(const std::string& name, const Watch& watch) {
  return complete(name, wait_for_stack(records_.find(name), "CREATE_COMPLETE", watch));
}

ClusterRecord AwsProvider::complete(const std::string& name, const Settled& settled) {
  ClusterRecord record = records_.find(name);  // another program may have stopped the cluster meanwhile
  const bool is_resized = record.resize.workers > 0 && has_workers(settled.state, record.resize.workers);
  if (is_resized) record.request.workers = record.resize.workers;
  const ClusterPlan planned = plan(record.request);
  if (is_resized) {
    record.machines = planned.machines;
    record.dollars_per_hour = planned.dollars_per_hour;
  }
  if (record.resize.workers > 0) set_resize(record, {}, now_seconds());
  write_profile(record, planned, settled.state["machines"]);
  if (record.phase != ClusterPhase::stopped) record.phase = ClusterPhase::running;
  records_.save(record);
  return record;
}

}  // namespace lockstep::cloud
