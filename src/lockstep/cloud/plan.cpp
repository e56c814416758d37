#include "lockstep/cloud/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cloud/duration.h"
#include "lockstep/cloud/machines.h"
#include "lockstep/cloud/s3_location.h"
#include "lockstep/view/cost.h"

namespace lockstep::cloud {
namespace {

// AWS's list prices in us-east-1, in dollars for a GB and a month of 730 hours. Elsewhere disks cost up to a
// fifth more.
constexpr double kDiskMonth = 0.08;
constexpr double kFsxMonth = 0.14;
constexpr double kHoursPerMonth = 730;
constexpr int64_t kUsualGpus = 8;
constexpr int64_t kLeastVcpus = 8;    // of machines without GPUs; smaller ones are for head nodes
constexpr int64_t kMostOffered = 64;  // workers of machines with GPUs
constexpr int64_t kMostCores = 1024;
constexpr std::array<int64_t, 7> kMachineCounts{1, 2, 4, 8, 16, 32, 64};

int64_t machines_for(int64_t workers, const Price& price) {
  return (workers + workers_of(price) - 1) / workers_of(price);
}

bool is_for_training(const Price& price, bool gpus) {
  return gpus ? price.gpus > 0 && relative_speed(price.gpu) > 0
              : price.gpus == 0 && price.vcpus >= kLeastVcpus;
}

double hourly(const Price& price, bool spot) {
  if (!spot) return price.on_demand;
  if (price.spot <= 0)
    throw Error(ErrorCode::not_found, "there is no spot price of " + price.type + " in " + price.region,
                "leave out --spot");
  return price.spot;
}

// The fewest machines, and of these the cheapest.
const Price& chosen_type(const PlanRequest& request, const PriceTable& table, bool gpus) {
  const int64_t workers = request.gpus > 0 ? request.gpus : kUsualGpus;
  const Price* best = nullptr;
  const auto rank = [&](const Price& price) {
    return std::pair(machines_for(workers, price),
                     hourly(price, request.spot) * static_cast<double>(machines_for(workers, price)));
  };
  for (const Price& price : table.prices) {
    if (price.region != request.region || !is_for_training(price, gpus)) continue;
    if (request.spot && price.spot <= 0) continue;
    if (best == nullptr || rank(price) < rank(*best)) best = &price;
  }
  if (best == nullptr)
    throw Error(ErrorCode::not_found,
                "there are no prices of machines " + std::string(gpus ? "with" : "without") +
                    " GPUs in --region " + quote(request.region),
                "the prices of " + table.date + " are of " + join(table.regions(), ", "));
  return *best;
}

struct Times {
  Duration duration;
  std::string from;
  double reference_speed = 1;  // of the kind of worker on which the duration is known
};

double speed_of(const Price& price) { return price.gpus > 0 ? relative_speed(price.gpu) : 1; }

Times times_of(const PlanRequest& request, const Price& price, const std::optional<ForecastFile>& forecast,
               int64_t workers) {
  const double speed = speed_of(price) > 0 ? speed_of(price) : 1;
  if (forecast)
    return {Duration(forecast->rows, request.kept),
            "the forecast in " + request.forecast +
                (price.gpus > 0 ? "; its GPUs are taken to be like those of " + price.type
                                : "; its cores are taken to be like those of the cloud"),
            speed};
  const bool given = request.hours > 0;
  return {Duration(given ? request.hours : 1, workers, request.kept),
          given ? "given; nothing was measured" : "1 hour is assumed; --hours or --forecast says more",
          speed};
}

// The price of everything but the machines, for an hour.
std::vector<CostLine> fixed_costs(const PlanRequest& request, const Price& head) {
  std::vector<CostLine> lines{
      {"head node " + head.type, head.on_demand},
      {"shared disk " + std::to_string(request.disk_gb) + " GB (EBS gp3), root disk of the head node",
       static_cast<double>(request.disk_gb + request.root_gb) * kDiskMonth / kHoursPerMonth}};
  if (request.fsx_gb > 0)
    lines.push_back({"FSx for Lustre " + std::to_string(request.fsx_gb) + " GB",
                     static_cast<double>(request.fsx_gb) * kFsxMonth / kHoursPerMonth});
  return lines;
}

double machine_disks(int64_t machines, int64_t root_gb) {
  return static_cast<double>(machines * root_gb) * kDiskMonth / kHoursPerMonth;
}

double sum_of(const std::vector<CostLine>& lines) {
  double sum = 0;
  for (const CostLine& line : lines) sum += line.dollars_per_hour;
  return sum;
}

struct OfferMaker {
  const Times& times;
  bool spot;
  double fixed;
  int64_t root_gb;

  Offer make(const Price& price, int64_t workers) const {
    const int64_t machines = machines_for(workers, price);
    const double speed = speed_of(price) > 0 ? speed_of(price) : times.reference_speed;
    const double hours = times.duration.hours(workers) * times.reference_speed / speed;
    const double per_hour =
        static_cast<double>(machines) * hourly(price, spot) + fixed + machine_disks(machines, root_gb);
    return {.type = price.type,
            .gpu = price.gpu,
            .machines = machines,
            .workers = workers,
            .hours = hours,
            .dollars_per_hour = per_hour,
            .dollars = per_hour * hours};
  }
};

std::vector<Offer> offers_of(const PlanRequest& request, const PriceTable& table, const OfferMaker& maker,
                             bool gpus) {
  std::vector<Offer> offers;
  for (const Price& price : table.prices) {
    if (price.region != request.region || !is_for_training(price, gpus) || (request.spot && price.spot <= 0))
      continue;
    for (const int64_t machines : kMachineCounts) {
      const int64_t workers = machines * workers_of(price);
      if (workers <= (gpus ? kMostOffered : kMostCores)) offers.push_back(maker.make(price, workers));
    }
  }
  return offers;
}

void mark(std::vector<Offer>& offers, const Offer& asked) {
  const auto same = std::find_if(offers.begin(), offers.end(), [&](const Offer& offer) {
    return offer.type == asked.type && offer.workers == asked.workers;
  });
  if (same == offers.end()) {
    // Among those of its kind, so that a curve is in order.
    const auto place = std::find_if(offers.begin(), offers.end(), [&](const Offer& offer) {
      return offer.type == asked.type && offer.workers > asked.workers;
    });
    offers.insert(place, asked)->asked = true;
  } else {
    same->asked = true;
  }
  for (Offer& offer : offers) {
    offer.best = std::none_of(offers.begin(), offers.end(), [&](const Offer& other) {
      return other.hours <= offer.hours && other.dollars <= offer.dollars &&
             (other.hours < offer.hours || other.dollars < offer.dollars);
    });
  }
}

void add_notes(ClusterPlan& plan, const PlanRequest& request, const Price& price) {
  if (request.type.empty())
    plan.notes.push_back("the machines were chosen because no fewer have " + with_commas(plan.workers) +
                         (plan.workers == 1 ? " worker" : " workers") +
                         ", and none of as few is cheaper an hour; --type names others");
  if (plan.workers < plan.machines * plan.workers_per_machine)
    plan.notes.push_back("the machines have " + std::to_string(plan.machines * plan.workers_per_machine) +
                         " places for workers, and all of them are paid for");
  if (plan.spot)
    plan.notes.push_back(
        "spot: the price changes, and AWS may take a machine back; a run then saves and is "
        "queued again");
  if (plan.machines > 1 && !plan.efa)
    plan.notes.push_back(price.type + " has no EFA: machines reach each other over TCP");
  plan.notes.push_back(
      "not included: the minutes in which machines start, data transfer, S3 storage and requests, public "
      "addresses, taxes");
  plan.notes.push_back("times on other GPUs follow from data sheets, on other numbers of workers from " +
                       std::string(request.forecast.empty() ? "" : "the forecast and ") + "--kept " +
                       shortest(request.kept) + "; they were not measured");
}

}  // namespace

ClusterPlan make_plan(const PlanRequest& request, const PriceTable& table) {
  check_values(request);
  if (request.hours > 0 && !request.forecast.empty())
    throw Error(ErrorCode::invalid_option, "--hours and --forecast both say how long the training takes",
                "leave one of them out");
  std::optional<ForecastFile> forecast;
  if (!request.forecast.empty()) forecast = read_forecast(request.forecast);
  if (request.fsx_gb != 0 && request.fsx_gb != 1200 && request.fsx_gb % 2400 != 0)
    throw Error(ErrorCode::invalid_option, "option --fsx-gb cannot be " + std::to_string(request.fsx_gb),
                "FSx for Lustre has 1200 GB or a multiple of 2400 GB");
  if (!request.data.empty()) parse_s3_location(request.data, "--data");
  const bool wants_gpus = !forecast || forecast->on_gpu;
  const Price& price = request.type.empty() ? chosen_type(request, table, wants_gpus)
                                            : table.find(request.type, request.region);
  if (forecast && forecast->on_gpu != (price.gpus > 0))
    throw Error(ErrorCode::invalid_option,
                "the forecast is of " + std::string(forecast->on_gpu ? "GPUs" : "CPU cores") +
                    ", and --type " + price.type + (price.gpus > 0 ? " has GPUs" : " has none"),
                "name another type, or make the forecast on such a machine");
  const Price& head = table.find(request.head_type, request.region);
  const bool gpus = price.gpus > 0;

  ClusterPlan plan;
  plan.region = request.region;
  plan.prices_date = table.date;
  plan.prices_source = table.source;
  plan.spot = request.spot;
  plan.type = price.type;
  plan.workers_per_machine = workers_of(price);
  plan.workers = request.gpus > 0               ? request.gpus
                 : request.type.empty() && gpus ? kUsualGpus
                                                : plan.workers_per_machine;
  plan.machines = machines_for(plan.workers, price);
  plan.gpu = price.gpu;
  plan.gpu_memory_gib = price.gpu_memory_gib;
  plan.vcpus = price.vcpus;
  plan.memory_gib = price.memory_gib;
  plan.head_type = head.type;
  plan.image = "ParallelCluster's image of Ubuntu 22.04, with NVIDIA's driver";
  plan.network_gbit = network_of(price.type).gbit_per_second;
  plan.efa = network_of(price.type).efa;
  plan.placement_group = plan.machines > 1;
  plan.s3_access = request.data.empty()
                       ? "none; --data s3://bucket/prefix lets the machines read it"
                       : "the machines' role may list and read " + request.data + "; no key is on them";
  plan.storage =
      std::to_string(request.disk_gb) + " GB EBS gp3, shared as /shared" +
      (request.fsx_gb > 0 ? ", and " + std::to_string(request.fsx_gb) + " GB FSx for Lustre as /fsx"
                          : std::string());
  plan.costs = {
      {std::to_string(plan.machines) + " x " + price.type + (plan.spot ? " (spot)" : " (on demand)"),
       static_cast<double>(plan.machines) * hourly(price, plan.spot)}};
  const std::vector<CostLine> fixed = fixed_costs(request, head);
  plan.costs.insert(plan.costs.end(), fixed.begin(), fixed.end());
  plan.costs.push_back({"root disks of the machines", machine_disks(plan.machines, request.root_gb)});
  plan.dollars_per_hour = sum_of(plan.costs);
  plan.dollars_per_hour_stopped = sum_of(fixed) - fixed.front().dollars_per_hour;

  const Times times = times_of(request, price, forecast, plan.workers);
  const OfferMaker maker{times, request.spot, sum_of(fixed), request.root_gb};
  const Offer asked = maker.make(price, plan.workers);
  plan.hours = asked.hours;
  plan.hours_from = times.from;
  plan.dollars = plan.dollars_per_hour * plan.hours;
  plan.offers = offers_of(request, table, maker, gpus);
  mark(plan.offers, asked);
  add_notes(plan, request, price);
  return plan;
}

std::vector<Offer> cheapest(const ClusterPlan& plan) {
  std::vector<Offer> offers = plan.offers;
  std::stable_sort(offers.begin(), offers.end(),
                   [](const Offer& a, const Offer& b) { return a.dollars < b.dollars; });
  return offers;
}

std::string plan_svg(const ClusterPlan& plan) {
  std::vector<view::CostCurve> curves;
  for (const Offer& offer : plan.offers) {
    const std::string name = offer.type + (offer.gpu.empty() ? "" : " (" + offer.gpu + ")");
    if (curves.empty() || curves.back().name != name) curves.push_back({name, {}});
    curves.back().points.push_back(
        {offer.hours, offer.dollars, std::to_string(offer.workers), offer.asked, offer.best});
  }
  return view::cost_svg(curves, {"Cost of the training against its time, " + plan.region +
                                     (plan.spot ? ", spot" : ", on demand"),
                                 "prices of " + plan.prices_date + "; hours: " + plan.hours_from});
}

}  // namespace lockstep::cloud
