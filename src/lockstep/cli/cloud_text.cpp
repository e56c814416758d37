#include "lockstep/cli/cloud_text.h"

#include <cmath>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cloud/aws.h"

namespace lockstep::cli {
namespace {

constexpr double kCent = 0.01;
constexpr int kCentDigits = 2;
constexpr int kFineDigits = 4;

std::string network_text(const cloud::ClusterPlan& plan) {
  std::string text = plan.network_gbit > 0 ? shortest(plan.network_gbit) + " Gbit/s a machine" : "not known";
  text += plan.efa ? ", EFA" : ", without EFA";
  return text + (plan.placement_group ? ", one placement group" : "");
}

std::string machine_text(const cloud::ClusterPlan& plan) {
  std::string text = std::to_string(plan.machines) + " x " + plan.type + " in " + plan.region + ": ";
  if (!plan.gpu.empty())
    text += std::to_string(plan.workers_per_machine) + " " + plan.gpu + " of " +
            fixed(plan.gpu_memory_gib, 0) + " GiB, ";
  return text + std::to_string(plan.vcpus) + " vCPUs, " + fixed(plan.memory_gib, 0) + " GiB each";
}

}  // namespace

std::string as_dollars(double dollars) {
  const bool fine = dollars > 0 && dollars < kCent;
  return "$" + (dollars >= 1000 ? with_commas(std::llround(dollars))
                                : fixed(dollars, fine ? kFineDigits : kCentDigits));
}

void check_provider(const std::string& provider) {
  if (provider == "aws") return;
  if (provider == "kubernetes")
    throw Error(ErrorCode::invalid_option,
                "there are no prices for kubernetes: a cluster of yours is paid already",
                "lockstep cloud create NAME --provider kubernetes --dry-run prints its manifests");
  throw Error(ErrorCode::invalid_option, "there are no prices for " + quote(provider),
              "lockstep cloud plan aws shows a cluster in AWS");
}

cloud::PriceTable prices_of(const std::string& choice, const std::string& region) {
  if (choice.empty()) return cloud::price_snapshot();
  if (choice == "live")
    return cloud::live_prices(cloud::AwsBridge::of_user(), region.empty() ? "us-east-1" : region);
  return cloud::read_prices(choice);
}

std::string cloud_plan_text(const cloud::ClusterPlan& plan, int width) {
  std::vector<std::vector<std::string>> rows{
      {"machines", machine_text(plan)},
      {"workers",
       with_commas(plan.workers) + (plan.gpu.empty() ? ", one for each core" : ", one for each GPU")},
      {"head node", plan.head_type},
      {"image", plan.image},
      {"network", network_text(plan)},
      {"S3 access", plan.s3_access},
      {"storage", plan.storage}};
  std::string text = "plan for " + plan.provider + ", with prices of " + printable(plan.prices_date) + "\n" +
                     in_columns_within(width, rows, "ll");
  std::vector<std::vector<std::string>> costs;
  for (const cloud::CostLine& line : plan.costs)
    costs.push_back({line.what, as_dollars(line.dollars_per_hour)});
  costs.push_back({"an hour", as_dollars(plan.dollars_per_hour)});
  costs.push_back({"the training, " + as_duration(plan.hours * 3600), as_dollars(plan.dollars)});
  costs.push_back({"an hour while it is stopped", as_dollars(plan.dollars_per_hour_stopped)});
  text += "\nprice\n" + in_columns(costs, "lr") + "  hours: " + printable(plan.hours_from) + "\n";
  for (const std::string& note : plan.notes) text += "  " + printable(note) + "\n";
  return text;
}

}  // namespace lockstep::cli
