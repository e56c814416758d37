// Makes a cluster in AWS if its price is below a limit, uses it, and removes it. docs/cloud.md says what an
// account needs, and that none of this was ever tried on real AWS.
//
//   build/cloud_cluster/cloud_cluster NAME PACKAGE DOLLARS
//
// PACKAGE is Lockstep's package for the machines, and DOLLARS the highest price of an hour. After Ctrl-C the
// cluster is removed too. Its last line:
//   photos is removed, and has cost at most $0.01
#include <cstdio>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/text.h"
#include "lockstep/cloud/provider.h"
#include "lockstep/launch/stop_signals.h"

using namespace lockstep;

namespace {

void show(const cloud::Progress& progress) { std::fprintf(stderr, "%s\n", progress.text.c_str()); }

// Between these two lines a program trains. The cluster is a profile with its name, so a pool of
//   session.open_pool({.profile = "photos", .workers = 8})
// has its machines, and so has lockstep batch --profile photos.
void use(cloud::Provider& aws, const std::string& name, const cloud::Watch& watch) {
  for (const cloud::ClusterStatus& cluster : aws.list("us-east-1"))
    std::printf("%s: %lld workers on %s\n", cluster.name.c_str(), static_cast<long long>(cluster.workers),
                cluster.type.c_str());
  aws.resize(name, 16, watch);
  aws.stop(name, watch);  // jobs save; only the disks cost from here on
  aws.start(name, watch);
}

void make_use_and_remove(const std::string& name, const std::string& package, double most_per_hour) {
  const launch::StopSignals signals("ending; what was made is removed, unless you press Ctrl-C again");
  const cloud::ClusterRequest request{.region = "us-east-1",
                                      .type = "g5.12xlarge",
                                      .workers = 8,
                                      .idle = "30m",
                                      .budget = 20,
                                      .package = package};
  const auto aws = cloud::make_provider("aws");
  const cloud::ClusterPlan plan = aws->plan(request);
  std::printf("%lld x %s, $%.2f an hour with the prices of %s\n", static_cast<long long>(plan.machines),
              plan.type.c_str(), plan.dollars_per_hour, plan.prices_date.c_str());
  if (plan.dollars_per_hour > most_per_hour)
    throw Error(ErrorCode::invalid_option, "the cluster costs more than the limit of an hour",
                "give a higher number of DOLLARS, or another .type or .workers in this source");
  const auto records = cloud::ClusterRecords::of_user();
  if (records.has(name))
    throw Error(ErrorCode::invalid_option, "there is a cluster \"" + name + "\" already",
                "give another NAME, or remove it: lockstep cloud remove " + name);
  const cloud::Watch until_stopped{.show = show, .stop = signals.token()}, to_its_end{.show = show};
  try {
    aws->create(name, request, until_stopped);
    use(*aws, name, until_stopped);
  } catch (...) {
    if (records.has(name)) aws->remove(name, "us-east-1", to_its_end);  // whatever was made until then
    throw;
  }
  const cloud::ClusterRecord record = records.find(name);
  aws->remove(name, "us-east-1", to_its_end);  // throws if anything with its tag is left
  std::printf("%s is removed, and has cost at most $%.2f\n", name.c_str(),
              cloud::most_dollars(record, now_seconds()));
}

}  // namespace

int main(int argc, char** argv) {
  const auto dollars = argc == 4 ? parse_number<double>(argv[3]) : std::nullopt;
  if (!dollars) {
    std::fprintf(stderr, "usage: cloud_cluster NAME PACKAGE DOLLARS, which is a number as in 12.50\n");
    return 2;
  }
  try {
    make_use_and_remove(argv[1], argv[2], *dollars);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cloud_cluster: %s\n", error.what());
    return 1;
  }
}
