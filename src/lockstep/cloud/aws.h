// Clusters in AWS, made by ParallelCluster.
#pragma once

#include "lockstep/cloud/aws_bridge.h"
#include "lockstep/cloud/provider.h"

namespace lockstep::cloud {

class AwsProvider : public Provider {
 public:
  AwsProvider(AwsBridge bridge, ClusterRecords records)
      : bridge_(std::move(bridge)), records_(std::move(records)) {}

  ClusterPlan plan(const ClusterRequest& request) override;
  std::string manifest(const std::string& name, const ClusterRequest& request) override;
  ClusterRecord create(const std::string& name, const ClusterRequest& request, const Watch& watch) override;
  ClusterRecord wait(const std::string& name, const Watch& watch) override;
  std::vector<ClusterStatus> list(const std::string& region) override;
  void adopt(const std::string& name, const std::string& region) override;
  ClusterRecord start(const std::string& name, const Watch& watch) override;
  ClusterRecord stop(const std::string& name, const Watch& watch) override;
  void check_resize(const std::string& name) override;
  ClusterRecord resize(const std::string& name, int64_t workers, const Watch& watch) override;
  void remove(const std::string& name, const std::string& region, const Watch& watch) override;

 private:
  /// What AWS says of a stack that it no longer changes, and the lock that was held when AWS was asked.
  struct Settled {
    Json state;
    jobs::FileLock changing;
  };

  void put_files(const ClusterRecord& record);
  std::filesystem::path write_config(const ClusterRecord& record);
  void check_owner(const Json& state, const ClusterRecord& record) const;
  Settled wait_for_stack(const ClusterRecord& record, const std::string& wanted, const Watch& watch);
  ClusterRecord running_record(const std::string& name);
  jobs::FileLock wait_for_lock(const std::string& name, const Watch& watch) const;
  void save_failure(const std::string& name, const std::string& stack) const;
  ClusterRecord complete(const std::string& name, const Settled& settled);
  void forget_refused_resize(ClusterRecord record);
  void write_profile(const ClusterRecord& record, const ClusterPlan& planned, const Json& machines);
  std::string host_key(const std::string& name, const std::string& region) const;
  void remove_stack(const ClusterRecord& record, const std::string& region, const Watch& watch);

  AwsBridge bridge_;
  ClusterRecords records_;
};

/// The prices of today of the types in the built-in table, from AWS. Needs keys and a network.
PriceTable live_prices(const AwsBridge& bridge, const std::string& region);

}  // namespace lockstep::cloud
