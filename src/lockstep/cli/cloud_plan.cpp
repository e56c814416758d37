// What a cluster in the cloud would cost.
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/cloud_text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/cloud/machines.h"
#include "lockstep/cloud/plan.h"

namespace lockstep::cli {
namespace {

using cloud::ClusterPlan;
using cloud::Offer;
using cloud::PriceTable;

struct PlanOutput {
  std::string svg;
  int64_t offers = 12;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Output");
    field("svg", self.svg, "write the curve of cost against time for all kinds of machines to this file");
    field("offers", self.offers, "maximum number of alternatives to print", between(0, 1000));
  };
};

struct PricesChoice {
  std::string region;
  std::string prices;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Prices");
    field("region", self.region, "show only this region of AWS");
    field("prices", self.prices,
          "file with the columns of data/aws-prices.csv; live: ask AWS; empty: the built-in prices");
  };
};

// The cheapest, and beside them what was asked for and what nothing else beats.
std::vector<Offer> shown_offers(const ClusterPlan& plan, int64_t most) {
  std::vector<Offer> all = cheapest(plan);
  const auto count = static_cast<size_t>(most);
  if (all.size() <= count) return all;
  std::stable_partition(all.begin(), all.end(), [](const Offer& offer) { return offer.asked || offer.best; });
  all.resize(count);
  std::stable_sort(all.begin(), all.end(),
                   [](const Offer& a, const Offer& b) { return a.dollars < b.dollars; });
  return all;
}

std::string offers_text(const ClusterPlan& plan, int64_t most, int width) {
  if (most == 0) return "";
  std::vector<std::vector<std::string>> rows{
      {"", "machines", "GPU", "workers", "time", "an hour", "training"}};
  for (const Offer& offer : shown_offers(plan, most))
    rows.push_back({std::string(offer.asked ? ">" : "") + (offer.best ? "*" : ""),
                    std::to_string(offer.machines) + " x " + offer.type, offer.gpu.empty() ? "-" : offer.gpu,
                    with_commas(offer.workers), as_duration(offer.hours * 3600),
                    as_dollars(offer.dollars_per_hour), as_dollars(offer.dollars)});
  return "\ncost against time\n" + in_columns_within(width, rows, "lllrrrr") +
         "  > asked for   * no other is both faster and cheaper\n";
}

}  // namespace

std::vector<FieldInfo> cloud_plan_fields() {
  return fields_of<cloud::PlanRequest>() + fields_of<PlanOutput>() + fields_of<JsonOutput>();
}

int run_cloud_plan(const Call& call, Console& console) {
  check_provider(call.words.front());
  const auto request = settings_of<cloud::PlanRequest>(call);
  const auto output = settings_of<PlanOutput>(call);
  const ClusterPlan plan = make_plan(request, prices_of(request.prices, request.region));
  if (!output.svg.empty()) write_file_atomic(output.svg, plan_svg(plan));
  if (settings_of<JsonOutput>(call).json) {
    console.print(to_json(plan).dump(2) + "\n");
    return 0;
  }
  console.print(cloud_plan_text(plan, console.table_width()) +
                offers_text(plan, output.offers, console.table_width()));
  if (!output.svg.empty()) console.print("\n" + printable(output.svg) + ": the curve of cost against time\n");
  return 0;
}

std::vector<FieldInfo> cloud_prices_fields() { return fields_of<PricesChoice>() + fields_of<JsonOutput>(); }

int run_cloud_prices(const Call& call, Console& console) {
  const auto choice = settings_of<PricesChoice>(call);
  const PriceTable table = prices_of(choice.prices, choice.region);
  if (!choice.region.empty()) table.find(table.prices.front().type, choice.region);
  std::vector<std::vector<std::string>> rows{
      {"type", "region", "GPUs", "memory each", "cores", "memory", "network", "on demand", "spot"}};
  Json json = Json::array();
  for (const cloud::Price& price : table.prices) {
    if (!choice.region.empty() && price.region != choice.region) continue;
    const cloud::Network network = cloud::network_of(price.type);
    rows.push_back({price.type, price.region,
                    price.gpus > 0 ? std::to_string(price.gpus) + " " + price.gpu : "-",
                    price.gpus > 0 ? fixed(price.gpu_memory_gib, 0) + " GiB" : "-",
                    std::to_string(price.vcpus), fixed(price.memory_gib, 0) + " GiB",
                    network.gbit_per_second > 0
                        ? shortest(network.gbit_per_second) + " Gbit/s" + (network.efa ? ", EFA" : "")
                        : "-",
                    as_dollars(price.on_demand), price.spot > 0 ? as_dollars(price.spot) : "-"});
    json.push_back({{"type", price.type},
                    {"region", price.region},
                    {"gpu", price.gpu},
                    {"gpus", price.gpus},
                    {"vcpus", price.vcpus},
                    {"memory_gib", price.memory_gib},
                    {"on_demand", price.on_demand},
                    {"spot", price.spot}});
  }
  if (settings_of<JsonOutput>(call).json) {
    console.print(Json{{"date", table.date}, {"source", table.source}, {"prices", json}}.dump(2) + "\n");
    return 0;
  }
  console.print(in_columns_within(console.table_width(), rows, "llrrrrlrr") + "\nprices of " +
                printable(table.date) + ", in US dollars an hour; spot: the lowest of the region's zones\n");
  return 0;
}

}  // namespace lockstep::cli
