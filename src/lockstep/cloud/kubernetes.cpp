#include "lockstep/cloud/kubernetes.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cloud/yaml.h"

namespace lockstep::cloud {
namespace {

constexpr int kPort = 29'500;  // torchrun's
constexpr size_t kMostDnsName = 40;
// The first start has nothing to resume; its words are the data and the run folder.
constexpr const char* kTrain =
    "resume=; if [ -e \"$1/options.json\" ]; then resume=--resume; fi; "
    "exec lockstep train \"$0\" --output \"$1\" $resume";

[[noreturn]] void only_printed() {
  throw Error(
      ErrorCode::invalid_option, "Lockstep only prints manifests for kubernetes",
      "lockstep cloud create NAME --provider kubernetes --dry-run > FILE, then kubectl apply -f FILE");
}

void check_dns_name(const std::string& name) {
  const bool form = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (!form || name.size() > kMostDnsName || name.ends_with('-'))
    throw Error(ErrorCode::invalid_option, "a JobSet cannot be named " + quote(name),
                "it has at most 40 lower-case letters, digits and hyphens");
}

Json variable(const char* name, const std::string& value) { return {{"name", name}, {"value", value}}; }

Json container(const std::string& name, const ClusterRequest& request, const ClusterPlan& planned) {
  // The service of the JobSet gives each pod this name.
  const std::string first = name + "-workers-0-0." + name;
  Json limits{{"cpu", planned.vcpus > 1 ? planned.vcpus - 1 : 1}};  // the system of the node needs some
  if (!planned.gpu.empty()) limits["nvidia.com/gpu"] = planned.workers_per_machine;
  return {{"name", "lockstep"},
          {"image", request.image},
          {"command", {"sh", "-c", kTrain, request.data, "/runs/" + name}},
          {"env",
           {variable("MASTER_ADDR", first),
            variable("MASTER_PORT", std::to_string(kPort)),
            variable("WORLD_SIZE", std::to_string(planned.machines)),
            {{"name", "RANK"},
             {"valueFrom",
              {{"fieldRef",
                {{"fieldPath", "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}}}}}},
          {"resources", {{"limits", limits}}},
          {"volumeMounts", Json::array({{{"name", "runs"}, {"mountPath", "/runs"}}})}};
}

}  // namespace

ClusterPlan KubernetesProvider::plan(const ClusterRequest& request) {
  ClusterPlan planned = make_plan(plan_request_of(request), price_snapshot());
  planned.provider = "kubernetes";
  return planned;
}

std::string KubernetesProvider::manifest(const std::string& name, const ClusterRequest& request) {
  check_cluster_name(name);
  check_dns_name(name);
  if (request.image.empty())
    throw Error(ErrorCode::invalid_option, "--image is missing: a container image that has Lockstep",
                "a JobSet starts containers: --image registry/lockstep:TAG");
  if (request.data.empty())
    throw Error(ErrorCode::invalid_option, "--data is missing: the pods train on it",
                "--data s3://bucket/prefix");
  const ClusterPlan planned = plan(request);
  const Json pod{
      {"restartPolicy", "Never"},
      {"terminationGracePeriodSeconds", 120},  // a run saves and ends at SIGTERM
      {"containers", Json::array({container(name, request, planned)})},
      {"volumes",
       Json::array({{{"name", "runs"}, {"persistentVolumeClaim", {{"claimName", name + "-runs"}}}}})}};
  const Json job{{"parallelism", planned.machines},
                 {"completions", planned.machines},
                 {"completionMode", "Indexed"},
                 {"backoffLimit", 0},
                 {"template", {{"spec", pod}}}};
  const Json set{{"apiVersion", "jobset.x-k8s.io/v1alpha2"},
                 {"kind", "JobSet"},
                 {"metadata", {{"name", name}, {"labels", {{"lockstep-cluster", name}}}}},
                 {"spec",
                  {{"network", {{"enableDNSHostnames", true}, {"subdomain", name}}},
                   {"failurePolicy", {{"maxRestarts", 10}}},
                   {"replicatedJobs",
                    Json::array({{{"name", "workers"}, {"replicas", 1}, {"template", {{"spec", job}}}}})}}}};
  return "# Printed by lockstep cloud create " + name +
         " --provider kubernetes --dry-run. Lockstep has never run on Kubernetes: this was\n"
         "# checked against schemas only. The claim " +
         name + "-runs must exist, on a disk that all nodes see.\n" + to_yaml(set);
}

ClusterRecord KubernetesProvider::create(const std::string&, const ClusterRequest&, const Watch&) {
  only_printed();
}
ClusterRecord KubernetesProvider::wait(const std::string&, const Watch&) { only_printed(); }
std::vector<ClusterStatus> KubernetesProvider::list(const std::string&) { only_printed(); }
void KubernetesProvider::adopt(const std::string&, const std::string&) { only_printed(); }
ClusterRecord KubernetesProvider::start(const std::string&, const Watch&) { only_printed(); }
ClusterRecord KubernetesProvider::stop(const std::string&, const Watch&) { only_printed(); }
void KubernetesProvider::check_resize(const std::string&) { only_printed(); }
ClusterRecord KubernetesProvider::resize(const std::string&, int64_t, const Watch&) { only_printed(); }
void KubernetesProvider::remove(const std::string&, const std::string&, const Watch&) { only_printed(); }

}  // namespace lockstep::cloud
