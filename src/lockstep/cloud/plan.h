// What a cluster in the cloud would be, what it costs, and what would be cheaper or faster. Needs no network:
// prices are a table, and times are given by the user or by a forecast of `lockstep plan`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/cloud/prices.h"

namespace lockstep::cloud {

/// What a user asks for.
struct PlanRequest {
  int64_t gpus = 0;
  double hours = 0;
  std::string forecast{};
  double kept = 0.9;
  std::string type{};
  std::string region = "us-east-1";
  bool spot = false;
  std::string data{};
  std::string head_type = "m5.large";
  int64_t disk_gb = 200;
  int64_t fsx_gb = 0;
  int64_t root_gb = 100;
  std::string prices{};

  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Training");
    field("gpus", self.gpus,
          "number of workers: one for each GPU, or one for each core of machines without GPUs; 0: all of one "
          "machine of --type, or 8",
          also("workers", between(0, 4096)));
    field("hours", self.hours,
          "hours that the training takes on these machines; 0: those of --forecast, or 1",
          between(0, 10'000));
    field("forecast", self.forecast,
          "file that lockstep plan FOLDER --forecast 1,2,4 --json wrote; it gives the hours for each number "
          "of workers");
    field(
        "kept", self.kept,
        "share of the speed that is kept when the number of workers doubles; used where no forecast says it",
        between(0.5, 1));
    field("Machines");
    field(
        "type", self.type,
        "type of the machines, such as p4d.24xlarge; empty: the fewest machines, and of these the cheapest");
    field("region", self.region, "region of AWS");
    field("spot", self.spot, "spot machines: cheaper, and AWS may take them back after two minutes' notice");
    field("head-type", self.head_type, "type of the head node, which is never a spot machine");
    field("Data");
    field("data", self.data, "location of the data, s3://bucket/prefix; the machines may read it");
    field("disk-gb", self.disk_gb, "shared disk for jobs and runs, in GB (EBS gp3)", between(35, 16'000));
    field("fsx-gb", self.fsx_gb,
          "fast shared disk (FSx for Lustre), in GB: 1200, or a multiple of 2400; 0: none",
          between(0, 100'800));
    field("root-gb", self.root_gb, "root disk of each machine, in GB", between(40, 16'000));
    field("Prices");
    field(
        "prices", self.prices,
        "file with the columns of data/aws-prices.csv; live: ask AWS, which needs keys and a network; empty: "
        "the built-in prices of early 2026");
  };
};

/// One line of what is paid for.
struct CostLine {
  std::string what;
  double dollars_per_hour = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("what", self.what);
    field("dollars_per_hour", self.dollars_per_hour);
  };
};

/// A number and kind of machines, with the time and the price of the training on them.
struct Offer {
  std::string type;
  std::string gpu;
  int64_t machines = 0;
  int64_t workers = 0;
  double hours = 0;
  double dollars_per_hour = 0;  ///< of everything: machines, head node, disks
  double dollars = 0;           ///< of the training
  bool asked = false;
  bool best = false;  ///< no other offer is both faster and cheaper
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("type", self.type);
    field("gpu", self.gpu);
    field("machines", self.machines);
    field("workers", self.workers);
    field("hours", self.hours);
    field("dollars_per_hour", self.dollars_per_hour);
    field("dollars", self.dollars);
    field("asked", self.asked);
    field("best", self.best);
  };
};

struct ClusterPlan {
  std::string provider = "aws";
  std::string region;
  std::string prices_date;
  std::string prices_source;
  bool spot = false;
  std::string type;
  int64_t machines = 0;
  int64_t workers = 0;
  int64_t workers_per_machine = 0;
  std::string gpu;
  double gpu_memory_gib = 0;
  int64_t vcpus = 0;
  double memory_gib = 0;
  std::string head_type;
  std::string image;
  double network_gbit = 0;
  bool efa = false;
  bool placement_group = false;
  std::string s3_access;
  std::string storage;
  std::vector<CostLine> costs;
  double dollars_per_hour = 0;
  double hours = 0;
  std::string hours_from;
  double dollars = 0;
  double dollars_per_hour_stopped = 0;
  std::vector<Offer> offers;  ///< all, in order of kind and number
  std::vector<std::string> notes;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("provider", self.provider);
    field("region", self.region);
    field("prices_date", self.prices_date);
    field("prices_source", self.prices_source);
    field("spot", self.spot);
    field("type", self.type);
    field("machines", self.machines);
    field("workers", self.workers);
    field("workers_per_machine", self.workers_per_machine);
    field("gpu", self.gpu);
    field("gpu_memory_gib", self.gpu_memory_gib);
    field("vcpus", self.vcpus);
    field("memory_gib", self.memory_gib);
    field("head_type", self.head_type);
    field("image", self.image);
    field("network_gbit", self.network_gbit);
    field("efa", self.efa);
    field("placement_group", self.placement_group);
    field("s3_access", self.s3_access);
    field("storage", self.storage);
    field("costs", self.costs);
    field("dollars_per_hour", self.dollars_per_hour);
    field("hours", self.hours);
    field("hours_from", self.hours_from);
    field("dollars", self.dollars);
    field("dollars_per_hour_stopped", self.dollars_per_hour_stopped);
    field("offers", self.offers);
    field("notes", self.notes);
  };
};

/// Throws invalid_option for a request that no plan fulfils, not_found for a type without a price.
ClusterPlan make_plan(const PlanRequest& request, const PriceTable& table);

/// The offers from the cheapest on.
std::vector<Offer> cheapest(const ClusterPlan& plan);

/// A curve of dollars against hours for each kind of machine.
std::string plan_svg(const ClusterPlan& plan);

}  // namespace lockstep::cloud
