// Requests, the configuration made of them, and what is remembered about clusters.
#include <functional>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/cloud/cluster_state.h"
#include "lockstep/cloud/kubernetes.h"
#include "lockstep/cloud/parallel_cluster.h"
#include "lockstep/cloud/yaml.h"

namespace lockstep::cloud {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Yaml, TextsThatLookLikeSomethingElseAreQuoted) {
  const Json json{{"a", "plain"}, {"b", "true"},   {"c", "1.0"}, {"d", ""},
                  {"e", "a: b"},  {"f", "x\n- y"}, {"g", "No"}};
  EXPECT_EQ(to_yaml(json),
            "a: plain\nb: \"true\"\nc: \"1.0\"\nd: \"\"\ne: \"a: b\"\nf: \"x\\n- y\"\ng: \"No\"\n");
}

TEST(Yaml, ListsAndObjectsAreIndented) {
  const Json json{{"list", Json::array({{{"a", 1}, {"b", Json::array({"x", "z1"})}}, Json::array({2, 3})})},
                  {"empty", Json::array()},
                  {"none", nullptr},
                  {"object", {{"inner", {{"deep", true}}}}}};
  EXPECT_EQ(
      to_yaml(json),
      "list:\n  - a: 1\n    b:\n      - x\n      - z1\n  - - 2\n    - 3\nempty: []\nnone: null\nobject:\n"
      "  inner:\n    deep: true\n");
}

ClusterRequest small_request() {
  ClusterRequest request;
  request.type = "g5.12xlarge";
  request.workers = 8;
  return request;
}

Json config_of(const ClusterRequest& request) {
  check_request(request);
  return cluster_config(request, make_plan(plan_request_of(request), price_snapshot()),
                        {.name = "c1",
                         .id = "0123456789abcdef",
                         .package_file = "lockstep.whl",
                         .package_sha256 = "00",
                         .subnet = "subnet-12345678"});
}

TEST(Config, HasAWorkerForEachGpuAndNothingThatRunsWithoutJobs) {
  const Json config = config_of(small_request());
  const Json& queue = config["Scheduling"]["SlurmQueues"][0];
  EXPECT_EQ(queue["ComputeResources"][0]["MaxCount"], 2);
  EXPECT_EQ(queue["ComputeResources"][0]["MinCount"], 0);
  EXPECT_EQ(queue["ComputeResources"][0]["Efa"]["Enabled"], true);
  EXPECT_EQ(queue["Networking"]["PlacementGroup"]["Enabled"], true);
  EXPECT_EQ(queue["CapacityType"], "ONDEMAND");
  EXPECT_EQ(config["Tags"][0]["Key"], kClusterTag);
}

TEST(Config, MachinesMayReadTheDataAndWriteNothing) {
  ClusterRequest request = small_request();
  request.data = "s3://photos/train/";
  const Json config = config_of(request);
  const Json access = config["Scheduling"]["SlurmQueues"][0]["Iam"]["S3Access"];
  EXPECT_EQ(access[1]["BucketName"], "photos");
  EXPECT_EQ(access[1]["KeyName"], "train/*");
  for (const Json& one : access) EXPECT_EQ(one["EnableWriteAccess"], false);
}

TEST(Config, TheWatchdogGetsLimitsAndPrices) {
  ClusterRequest request = small_request();
  request.idle = "45m";
  request.budget = 12.5;
  const Json words = config_of(request)["HeadNode"]["CustomActions"]["OnNodeConfigured"]["Args"];
  EXPECT_EQ(words.dump(),
            R"(["head","lockstep-0123456789abcdef","lockstep.whl","00","2700","12.5","5.672","0.096"])");
  EXPECT_THAT(bootstrap_script(), HasSubstr("spot/instance-action"));
  EXPECT_THAT(bootstrap_script(), Not(HasSubstr("LOCKSTEP_SPOT_NOTICE")));
}

TEST(Request, ASpotMachineCannotComeFromAReservation) {
  ClusterRequest request = small_request();
  request.spot = true;
  request.reservation = "cr-12345678";
  EXPECT_THAT(refusal_of([&] { check_request(request); }), HasSubstr("--reservation"));
}

TEST(Request, TimesHaveUnits) {
  EXPECT_EQ(parse_seconds("90s", "idle"), 90);
  EXPECT_EQ(parse_seconds("30m", "idle"), 1800);
  EXPECT_EQ(parse_seconds("2h", "idle"), 7200);
  EXPECT_EQ(parse_seconds("1d", "idle"), 86'400);
  EXPECT_EQ(parse_seconds("0", "idle"), 0);
  for (const char* bad : {"", "m", "-1m", "1.5h", "8d", "1 h", "99999999999999999999"})
    EXPECT_THAT(refusal_of([&] { parse_seconds(bad, "idle"); }), HasSubstr("--idle")) << bad;
}

TEST(Request, NamesThatParallelClusterRefusesAreRefused) {
  for (const char* bad : {"", "1abc", "-a", "a_b", "a b", "../x", "a/b", "ab\n"})
    EXPECT_THAT(refusal_of([&] { check_cluster_name(bad); }), HasSubstr("ClusterName")) << bad;
  EXPECT_EQ(refusal_of([&] { check_cluster_name(std::string(60, 'a')); }), "no error");
  EXPECT_THAT(refusal_of([&] { check_cluster_name(std::string(61, 'a')); }), HasSubstr("ClusterName"));
}

TEST(Records, AreWhatWasSaved) {
  const test::TemporaryFolder folder;
  const ClusterRecords records(folder.path() / "cloud");
  EXPECT_TRUE(records.list().empty());
  ClusterRecord record{.name = "c1", .id = "ab"};
  record.request = small_request();
  record.created = 1000;
  set_running(record, true, 1000);
  records.save(record);
  EXPECT_EQ(to_json(records.find("c1")), to_json(record));
  EXPECT_THAT(refusal_of([&] { records.find("c2"); }), HasSubstr("there is c1"));
  records.remove("c1");
  EXPECT_FALSE(records.has("c1"));
}

TEST(Records, OneCommandAtATimeMakesOrRemovesACluster) {
  const test::TemporaryFolder folder;
  const ClusterRecords records(folder.path() / "cloud");
  {
    const auto making = records.lock("c1");
    EXPECT_THAT(refusal_of([&] { records.lock("c1"); }),
                HasSubstr("another command makes, changes or removes"));
    records.lock("c2");
  }
  records.lock("c1");
  EXPECT_TRUE(records.list().empty());
}

TEST(Records, ADamagedOneIsNamed) {
  const test::TemporaryFolder folder;
  folder.write("c1/cluster.json", "{\"name\": ");
  EXPECT_THAT(refusal_of([&] { ClusterRecords(folder.path()).list(); }),
              HasSubstr("c1/cluster.json\" is damaged"));
}

TEST(Records, CostIsThatOfAllMachinesWhileItRunsAndOfDisksElse) {
  ClusterRecord record{.name = "c1"};
  record.created = 0;
  record.dollars_per_hour = 20;
  record.dollars_per_hour_stopped = 0.5;
  set_running(record, true, 0);
  set_running(record, true, 600);
  set_running(record, false, 3600);
  EXPECT_DOUBLE_EQ(most_dollars(record, 3 * 3600), 20 + 2 * 0.5);
  set_running(record, true, 3 * 3600);
  EXPECT_DOUBLE_EQ(most_dollars(record, 4 * 3600), 40 + 2 * 0.5);
}

TEST(Records, EachTimeCostsAtItsOwnRate) {
  ClusterRecord record{.name = "c1"};
  record.created = 0;
  record.dollars_per_hour = 20;
  record.dollars_per_hour_stopped = 0.5;
  set_running(record, true, 0);
  // Nobody knows which machines are there while a resize goes on: the larger number counts.
  set_resize(record, {.workers = 16, .dollars_per_hour = 40}, 3600);
  EXPECT_EQ(most_dollars_per_hour(record), 40);
  EXPECT_DOUBLE_EQ(most_dollars(record, 2 * 3600), 20 + 40);
  record.dollars_per_hour = 40;
  set_resize(record, {}, 2 * 3600);
  set_resize(record, {.workers = 4, .dollars_per_hour = 10}, 3 * 3600);
  EXPECT_DOUBLE_EQ(most_dollars(record, 4 * 3600), 20 + 40 + 40 + 40);
  record.dollars_per_hour = 10;
  set_resize(record, {}, 4 * 3600);
  EXPECT_DOUBLE_EQ(most_dollars(record, 5 * 3600), 20 + 40 + 40 + 40 + 10);
  set_running(record, false, 5 * 3600);
  set_resize(record, {.workers = 8, .dollars_per_hour = 20}, 6 * 3600);
  EXPECT_DOUBLE_EQ(most_dollars(record, 7 * 3600), 150 + 2 * 0.5);
}

TEST(Kubernetes, OnlyPrints) {
  KubernetesProvider provider;
  EXPECT_THAT(refusal_of([&] { provider.create("a", {}, {}); }), HasSubstr("only prints manifests"));
  ClusterRequest request = small_request();
  EXPECT_THAT(refusal_of([&] { provider.manifest("a", request); }), HasSubstr("--image"));
  request.image = "registry/lockstep:1";
  request.data = "s3://photos/train";
  EXPECT_THAT(provider.manifest("a", request), HasSubstr("nvidia.com/gpu: 4"));
  EXPECT_THAT(refusal_of([&] { provider.manifest("Big", request); }), HasSubstr("Big"));
}

}  // namespace
}  // namespace lockstep::cloud
