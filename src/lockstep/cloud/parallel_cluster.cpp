#include "lockstep/cloud/parallel_cluster.h"

#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/cloud/internal/embedded.h"
#include "lockstep/cloud/s3_location.h"

namespace lockstep::cloud {
namespace {

constexpr int64_t kSecondsPerMinute = 60;
constexpr int64_t kUsualScaledownMinutes = 10;  // ParallelCluster's own
constexpr int64_t kLogDays = 7;

Json root_volume(const ClusterRequest& request) {
  return {{"RootVolume", {{"Size", request.root_gb}, {"VolumeType", "gp3"}, {"Encrypted", true}}}};
}

// The machines' role may read the data and what this cluster's machines install, and write nothing.
Json s3_access(const ClusterRequest& request, const ClusterIdentity& identity) {
  Json access = Json::array({{{"BucketName", identity.bucket()}, {"EnableWriteAccess", false}}});
  if (!request.data.empty()) {
    const S3Location data = parse_s3_location(request.data, "--data");
    Json entry{{"BucketName", data.bucket}};
    if (!data.prefix.empty()) entry["KeyName"] = data.prefix + "/*";
    entry["EnableWriteAccess"] = false;
    access.push_back(std::move(entry));
  }
  return access;
}

Json rights(const ClusterRequest& request, const ClusterIdentity& identity) {
  Json iam{{"S3Access", s3_access(request, identity)}};
  if (!request.policy.empty()) iam["AdditionalIamPolicies"] = Json::array({{{"Policy", request.policy}}});
  return iam;
}

Json start_action(const ClusterRequest& request, const ClusterPlan& plan, const ClusterIdentity& identity,
                  const char* role) {
  Json words =
      Json::array({role, identity.bucket(), identity.package_file, identity.package_sha256,
                   std::to_string(parse_seconds(request.idle, "idle")), shortest(request.budget),
                   shortest(plan.costs.front().dollars_per_hour / static_cast<double>(plan.machines)),
                   shortest(plan.costs[1].dollars_per_hour)});
  return {{"OnNodeConfigured", {{"Script", "s3://" + identity.bucket() + "/bootstrap.sh"}, {"Args", words}}}};
}

Json networking(const ClusterRequest& request, Json subnet) {
  if (!request.security_group.empty())
    subnet["AdditionalSecurityGroups"] = Json::array({request.security_group});
  return subnet;
}

Json head_node(const ClusterRequest& request, const ClusterPlan& plan, const ClusterIdentity& identity) {
  Json ssh = Json::object();
  if (!request.key.empty()) ssh["KeyName"] = request.key;
  ssh["AllowedIps"] = request.ssh_from;
  Json head{{"InstanceType", request.head_type},
            {"Networking", networking(request, {{"SubnetId", identity.subnet}})},
            {"Ssh", ssh},
            {"LocalStorage", root_volume(request)},
            {"Iam", rights(request, identity)},
            {"Imds", {{"Secured", true}}}};
  if (!identity.package_file.empty()) head["CustomActions"] = start_action(request, plan, identity, "head");
  return head;
}

Json queue(const ClusterRequest& request, const ClusterPlan& plan, const ClusterIdentity& identity) {
  const bool reserved = !request.reservation.empty();
  Json machines{
      {"Name", "machines"}, {"InstanceType", plan.type}, {"MinCount", 0}, {"MaxCount", plan.machines}};
  if (request.spot_price > 0) machines["SpotPrice"] = request.spot_price;
  // A worker is a GPU or a core, never a hardware thread.
  if (plan.gpu.empty()) machines["DisableSimultaneousMultithreading"] = true;
  if (plan.efa) machines["Efa"] = {{"Enabled", true}};
  if (reserved) machines["CapacityReservationTarget"] = {{"CapacityReservationId", request.reservation}};
  Json net{{"SubnetIds",
            Json::array({request.workers_subnet.empty() ? identity.subnet : request.workers_subnet})}};
  // ParallelCluster wants to be told where there is EFA.
  if (plan.placement_group || plan.efa) net["PlacementGroup"] = {{"Enabled", plan.placement_group}};
  Json workers{{"Name", "workers"},
               {"CapacityType", request.spot ? "SPOT" : "ONDEMAND"},
               {"ComputeSettings", {{"LocalStorage", root_volume(request)}}},
               {"Networking", networking(request, std::move(net))},
               {"ComputeResources", Json::array({machines})},
               {"Iam", rights(request, identity)}};
  if (!identity.package_file.empty())
    workers["CustomActions"] = start_action(request, plan, identity, "worker");
  return workers;
}

Json shared_storage(const ClusterRequest& request) {
  Json storage = Json::array({{{"MountDir", "/shared"},
                               {"Name", "shared"},
                               {"StorageType", "Ebs"},
                               {"EbsSettings",
                                {{"VolumeType", "gp3"},
                                 {"Size", request.disk_gb},
                                 {"Encrypted", true},
                                 {"DeletionPolicy", "Delete"}}}}});
  if (request.fsx_gb > 0)
    storage.push_back({{"MountDir", "/fsx"},
                       {"Name", "fsx"},
                       {"StorageType", "FsxLustre"},
                       {"FsxLustreSettings",
                        {{"StorageCapacity", request.fsx_gb},
                         {"DeploymentType", "SCRATCH_2"},
                         {"DeletionPolicy", "Delete"}}}});
  return storage;
}

}  // namespace

std::string login_user(Os os) { return os == Os::ubuntu2204 || os == Os::ubuntu2404 ? "ubuntu" : "ec2-user"; }

Json cluster_config(const ClusterRequest& request, const ClusterPlan& plan, const ClusterIdentity& identity) {
  Json tags = Json::array();
  const std::vector<std::pair<std::string, std::string>> own{{kClusterTag, identity.name},
                                                             {kIdTag, identity.id},
                                                             {kTypeTag, plan.type},
                                                             {kWorkersTag, std::to_string(plan.workers)},
                                                             {kUserTag, login_user(request.os)}};
  for (const auto& [key, value] : own) tags.push_back({{"Key", key}, {"Value", value}});
  for (const auto& [key, value] : tags_of(request)) tags.push_back({{"Key", key}, {"Value", value}});
  const int64_t idle = parse_seconds(request.idle, "idle") / kSecondsPerMinute;
  const int64_t scaledown =
      idle == 0 ? kUsualScaledownMinutes : std::clamp<int64_t>(idle, 1, kUsualScaledownMinutes);
  Json image{{"Os", enum_names(Os{})[static_cast<size_t>(request.os)]}};
  if (!request.image.empty()) image["CustomAmi"] = request.image;
  Json config{
      {"Region", request.region},
      {"Image", image},
      {"Tags", tags},
      {"Imds", {{"ImdsSupport", "v2.0"}}},
      {"HeadNode", head_node(request, plan, identity)},
      {"Scheduling",
       {{"Scheduler", "slurm"},
        {"SlurmSettings", {{"ScaledownIdletime", scaledown}, {"QueueUpdateStrategy", "DRAIN"}}},
        {"SlurmQueues", Json::array({queue(request, plan, identity)})}}},
      {"SharedStorage", shared_storage(request)},
      {"Monitoring",
       {{"Logs",
         {{"CloudWatch", {{"Enabled", true}, {"RetentionInDays", kLogDays}, {"DeletionPolicy", "Delete"}}}}},
        {"Dashboards", {{"CloudWatch", {{"Enabled", false}}}}}}}};
  if (!request.boundary.empty()) config["Iam"] = {{"PermissionsBoundary", request.boundary}};
  return config;
}

std::string bootstrap_script() {
  constexpr std::string_view kPlace = "LOCKSTEP_SPOT_NOTICE\n";
  std::string script(embedded::bootstrap());
  return script.replace(script.find(kPlace), kPlace.size(), embedded::spot_notice());
}

}  // namespace lockstep::cloud
