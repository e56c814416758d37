// What a user asks for when a cluster is created. Everything is checked before anything is started.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/cloud/plan.h"

namespace lockstep::cloud {

enum class Os { ubuntu2204, ubuntu2404, alinux2023, rhel9 };
constexpr std::array<const char*, 4> enum_names(Os) {
  return {"ubuntu2204", "ubuntu2404", "alinux2023", "rhel9"};
}

struct ClusterRequest {
  std::string region = "us-east-1";
  std::string type{};
  int64_t workers = 8;
  std::string idle = "30m";
  double budget = 0;
  bool spot = false;
  double spot_price = 0;
  std::string data{};
  std::string head_type = "m5.large";
  int64_t disk_gb = 200;
  int64_t fsx_gb = 0;
  int64_t root_gb = 100;
  std::string package{};
  Os os = Os::ubuntu2204;
  std::string image{};
  std::string subnet{};
  std::string workers_subnet{};
  std::string security_group{};
  std::string ssh_from = "0.0.0.0/0";
  std::string key{};
  std::string policy{};
  std::string boundary{};
  std::string reservation{};
  std::vector<std::string> tags{};
  std::string prices{};

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Machines");
    field("region", self.region, "region of AWS");
    field("type", self.type,
          "type of the machines, such as p4d.24xlarge; empty: as lockstep cloud plan chooses");
    field("workers", self.workers,
          "number of workers: one for each GPU, or one for each core of machines without GPUs",
          also("gpus", between(1, 4096)));
    field("spot", self.spot, "spot machines: cheaper, and AWS may take them back after two minutes' notice");
    field("spot-price", self.spot_price,
          "highest price of a spot machine, in dollars an hour; 0: the price on demand", between(0, 1000));
    field("head-type", self.head_type, "type of the head node, which is never a spot machine");
    field("reservation", self.reservation, "capacity reservation (cr-...) from which the machines come");
    field("os", self.os, "system of the machines");
    field("image", self.image, "image (ami-...) of the machines; empty: ParallelCluster's own");
    field(
        "package", self.package,
        "Lockstep's package that the machines install: a tarball (CPU) or a wheel (GPU) of scripts/package; "
        "empty: the only one in this folder or in dist");
    field("Limits");
    field("idle", self.idle,
          "stop the cluster after this time without a step, a validation or a checkpoint: 90s, 30m, 2h; 0: "
          "never");
    field("budget", self.budget, "stop the cluster when it has cost this number of dollars; 0: no limit",
          between(0, 1e6));
    field("Data");
    field("data", self.data, "location of the data, s3://bucket/prefix; the machines may read it");
    field("disk-gb", self.disk_gb, "shared disk for jobs and runs, in GB (EBS gp3)", between(35, 16'000));
    field("fsx-gb", self.fsx_gb,
          "fast shared disk (FSx for Lustre), in GB: 1200, or a multiple of 2400; 0: none",
          between(0, 100'800));
    field("root-gb", self.root_gb, "root disk of each machine, in GB", between(40, 16'000));
    field("Network and rights");
    field("subnet", self.subnet, "subnet (subnet-...) of the head node; empty: one of the default network");
    field("workers-subnet", self.workers_subnet, "subnet of the machines; empty: that of the head node");
    field("security-group", self.security_group, "a further security group (sg-...) of all machines");
    field(
        "ssh-from", self.ssh_from,
        "addresses from which the head node takes ssh: a CIDR block such as 203.0.113.0/24, or a prefix list "
        "(pl-...)");
    field("key", self.key, "name of the EC2 key pair for ssh; empty: the only one of the region");
    field("policy", self.policy, "a further IAM policy (arn:...) of all machines");
    field("boundary", self.boundary, "IAM permissions boundary (arn:...) of all roles");
    field("tags", self.tags, "further tags, KEY=VALUE, separated by commas");
    field("Prices");
    field("prices", self.prices,
          "file with the columns of data/aws-prices.csv; live: ask AWS; empty: the built-in prices");
  };
};

/// "90s", "30m", "2h", "1d" or seconds as a whole number. Throws invalid_option that names the option.
int64_t parse_seconds(const std::string& text, const std::string& option);

/// Throws invalid_option for a name that ParallelCluster refuses.
void check_cluster_name(const std::string& name);

/// Throws invalid_option that names the option, the value, and ParallelCluster's field. Needs no network.
void check_request(const ClusterRequest& request);

/// KEY=VALUE, split and checked.
std::vector<std::pair<std::string, std::string>> tags_of(const ClusterRequest& request);

/// The same machines as a plan, which has their price.
PlanRequest plan_request_of(const ClusterRequest& request);

}  // namespace lockstep::cloud
