#include "lockstep/cloud/plan.h"

#include <cmath>
#include <ostream>

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/cloud/duration.h"
#include "lockstep/cloud/machines.h"
#include "lockstep/cloud/request.h"

namespace lockstep::cloud {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

struct PriceCase {
  PlanRequest request;
  int64_t machines;
  double machines_an_hour;  // written from data/aws-prices.csv
  double head_an_hour;
};

void PrintTo(const PriceCase& one, std::ostream* out) { *out << to_json(one.request).dump(); }

class Arithmetic : public ::testing::TestWithParam<PriceCase> {};

// Disks by hand: dollars for a GB and a month, in a month of 730 hours.
TEST_P(Arithmetic, IsThatOfTheSnapshot) {
  const PriceCase& one = GetParam();
  const ClusterPlan plan = make_plan(one.request, price_snapshot());
  EXPECT_EQ(plan.machines, one.machines);
  const double disks = (static_cast<double>(one.request.disk_gb + 100 + 100 * one.machines) * 0.08 +
                        static_cast<double>(one.request.fsx_gb) * 0.14) /
                       730;
  const double an_hour = one.machines_an_hour + one.head_an_hour + disks;
  EXPECT_NEAR(plan.dollars_per_hour, an_hour, 1e-9);
  const double hours = one.request.hours > 0 ? one.request.hours : 1;
  EXPECT_NEAR(plan.hours, hours, 1e-12);
  EXPECT_NEAR(plan.dollars, an_hour * hours, 1e-9 * an_hour * hours);
  EXPECT_NEAR(plan.dollars_per_hour_stopped, disks - static_cast<double>(100 * one.machines) * 0.08 / 730,
              1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    TwentyCases, Arithmetic,
    ::testing::Values(
        PriceCase{{.gpus = 8, .hours = 4, .type = "p4d.24xlarge"}, 1, 21.957642, 0.096},
        PriceCase{{.gpus = 8, .hours = 4, .type = "p4d.24xlarge", .spot = true}, 1, 2.4655, 0.096},
        PriceCase{{.gpus = 16, .hours = 2, .type = "p4d.24xlarge"}, 2, 43.915284, 0.096},
        PriceCase{{.gpus = 9, .hours = 2, .type = "p4d.24xlarge"}, 2, 43.915284, 0.096},
        PriceCase{{.gpus = 4, .hours = 1, .type = "p4d.24xlarge"}, 1, 21.957642, 0.096},
        PriceCase{
            {.gpus = 8, .hours = 10, .type = "p4d.24xlarge", .region = "us-west-2"}, 1, 21.95764, 0.096},
        PriceCase{
            {.gpus = 8, .hours = 10, .type = "p4d.24xlarge", .region = "eu-west-1"}, 1, 23.71569, 0.107},
        PriceCase{
            {.gpus = 8, .hours = 10, .type = "p4d.24xlarge", .region = "eu-central-1"}, 1, 27.43298, 0.115},
        PriceCase{{.gpus = 64, .hours = 0.5, .type = "p5.48xlarge"}, 8, 440.32, 0.096},
        PriceCase{{.gpus = 8, .hours = 0.5, .type = "p5.48xlarge", .spot = true}, 1, 17.6289, 0.096},
        PriceCase{{.gpus = 1, .hours = 100, .type = "g4dn.xlarge"}, 1, 0.526, 0.096},
        PriceCase{{.gpus = 1, .hours = 100, .type = "g4dn.xlarge", .region = "us-west-2", .spot = true},
                  1,
                  0.2386,
                  0.096},
        PriceCase{{.gpus = 8, .hours = 3, .type = "g5.xlarge", .region = "eu-central-1"}, 8, 10.064, 0.115},
        PriceCase{{.gpus = 8, .hours = 3, .type = "g5.12xlarge"}, 2, 11.344, 0.096},
        PriceCase{{.gpus = 8, .hours = 3, .type = "g6e.48xlarge", .region = "us-west-2"}, 1, 30.13118, 0.096},
        PriceCase{{.gpus = 96, .hours = 8, .type = "c7i.8xlarge"}, 6, 8.568, 0.096},
        PriceCase{{.gpus = 32, .hours = 8, .type = "c7a.8xlarge", .region = "eu-west-1"}, 1, 1.76192, 0.107},
        PriceCase{{.hours = 0, .type = "p3.16xlarge"}, 1, 24.48, 0.096},
        PriceCase{{.gpus = 8, .hours = 1, .type = "p6-b200.48xlarge", .head_type = "t3.medium"},
                  1,
                  113.9328,
                  0.0416},
        PriceCase{{.gpus = 8, .hours = 1, .type = "p4de.24xlarge", .disk_gb = 1000, .fsx_gb = 4800},
                  1,
                  27.44705,
                  0.096}));

PlanRequest request_of(int64_t gpus, const std::string& type) {
  return {.gpus = gpus, .hours = 4, .type = type};
}

const Offer& offer_of(const ClusterPlan& plan, const std::string& type, int64_t workers) {
  for (const Offer& offer : plan.offers) {
    if (offer.type == type && offer.workers == workers) return offer;
  }
  throw std::runtime_error("no offer of " + type);
}

TEST(Plan, WithoutATypeItIsTheFewestMachinesAndThenTheCheapest) {
  const ClusterPlan plan = make_plan({.gpus = 8, .hours = 4}, price_snapshot());
  EXPECT_EQ(plan.type, "g6.48xlarge");
  EXPECT_EQ(make_plan({.gpus = 1, .hours = 4}, price_snapshot()).type, "g4dn.xlarge");
  EXPECT_THAT(plan.notes, Contains(HasSubstr("chosen because no fewer have 8 workers")));
  EXPECT_THAT(make_plan(request_of(8, "g6.48xlarge"), price_snapshot()).notes,
              Not(Contains(HasSubstr("chosen because"))));
}

TEST(Plan, SaysTheDateOfItsPrices) {
  EXPECT_EQ(make_plan({}, price_snapshot()).prices_date, "early 2026");
  EXPECT_EQ(price_snapshot().prices.size(), 80U);
}

TEST(Plan, RootDisksOfAllMachinesAreInThePrice) {
  const auto asked = [](int64_t root_gb) {
    return plan_request_of({.type = "p4d.24xlarge", .workers = 16, .root_gb = root_gb});
  };
  const ClusterPlan usual = make_plan(asked(100), price_snapshot());
  const ClusterPlan large = make_plan(asked(1100), price_snapshot());
  EXPECT_NEAR(large.dollars_per_hour - usual.dollars_per_hour, 3 * 1000 * 0.08 / 730, 1e-9);
  EXPECT_NEAR(large.dollars_per_hour_stopped - usual.dollars_per_hour_stopped, 1000 * 0.08 / 730, 1e-9);
  EXPECT_NEAR(offer_of(large, "p4d.24xlarge", 8).dollars_per_hour -
                  offer_of(usual, "p4d.24xlarge", 8).dollars_per_hour,
              2 * 1000 * 0.08 / 730, 1e-9);
}

TEST(Plan, EfaAndPlacementGroupWhereTheyAre) {
  const ClusterPlan two = make_plan(request_of(16, "p4d.24xlarge"), price_snapshot());
  EXPECT_TRUE(two.efa && two.placement_group);
  const ClusterPlan small = make_plan(request_of(1, "g5.xlarge"), price_snapshot());
  EXPECT_FALSE(small.efa || small.placement_group);
}

TEST(Plan, TimesOnOtherGpusFollowFromTheirSpeed) {
  const ClusterPlan plan = make_plan(request_of(8, "p4d.24xlarge"), price_snapshot());
  EXPECT_NEAR(offer_of(plan, "p5.48xlarge", 8).hours, 4 * 1555.0 / 3350, 1e-9);
  EXPECT_NEAR(offer_of(plan, "p4d.24xlarge", 16).hours, 4 / (2 * 0.9), 1e-9);
  EXPECT_NEAR(offer_of(plan, "g5.xlarge", 1).hours, 4 * 8 * std::pow(0.9, 3) / (70.0 / 312), 1e-9);
  EXPECT_TRUE(offer_of(plan, "p4d.24xlarge", 8).asked);
}

TEST(Plan, TheBestAreThoseThatNoOtherBeats) {
  const ClusterPlan plan = make_plan(request_of(8, "p4d.24xlarge"), price_snapshot());
  const std::vector<Offer> offers = cheapest(plan);
  EXPECT_TRUE(offers.front().best);
  double fastest = 1e300;
  for (const Offer& offer : offers) {
    EXPECT_EQ(offer.best, offer.hours < fastest) << offer.type << " " << offer.workers;
    if (offer.best) fastest = offer.hours;
  }
}

TEST(Plan, ANumberThatNoMachineHasIsAnOfferToo) {
  const ClusterPlan plan = make_plan(request_of(12, "p4d.24xlarge"), price_snapshot());
  EXPECT_TRUE(offer_of(plan, "p4d.24xlarge", 12).asked);
  EXPECT_THAT(plan.notes.front(), HasSubstr("16 places"));
}

TEST(Plan, TheCurveNamesAllKinds) {
  const std::string svg = plan_svg(make_plan(request_of(8, "p4d.24xlarge"), price_snapshot()));
  EXPECT_THAT(svg, HasSubstr("p5.48xlarge (H100)"));
  EXPECT_THAT(svg, HasSubstr("early 2026"));
}

TEST(Forecast, BetweenTwoRowsItIsAStraightLineOnLogarithmicAxes) {
  const Duration duration({{1, 8}, {4, 2}}, 0.9);
  EXPECT_NEAR(duration.hours(2), 4, 1e-9);
  EXPECT_NEAR(duration.hours(4), 2, 1e-12);
  EXPECT_NEAR(duration.hours(8), 1 / 0.9, 1e-9);
}

TEST(Forecast, OfACpuIsPricedOnMachinesWithoutGpus) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("plan.json", R"({"device": "cpu", "forecast": {"rows": [
      {"workers": 1, "run_seconds": 7200}, {"workers": 4, "run_seconds": 3600}]}})");
  const ClusterPlan plan = make_plan({.forecast = file.string(), .type = "c7i.2xlarge"}, price_snapshot());
  EXPECT_EQ(plan.workers, 4);
  EXPECT_NEAR(plan.hours, 1, 1e-9);
  EXPECT_NEAR(plan.dollars, 0.357 + 0.096 + 400 * 0.08 / 730, 1e-9);
  for (const Offer& offer : plan.offers) EXPECT_TRUE(offer.gpu.empty());
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Plan, RefusesWhatCannotBe) {
  const auto of = [](const PlanRequest& request) {
    return message_of([&] { make_plan(request, price_snapshot()); });
  };
  EXPECT_THAT(of({.type = "p4d.24xlrge"}), HasSubstr("did you mean p4d.24xlarge?"));
  EXPECT_THAT(of({.type = "p5.48xlarge", .region = "eu-west-1"}),
              HasSubstr("there is one in us-east-1, us-west-2"));
  EXPECT_THAT(of({.region = "us-est-1"}), HasSubstr("--region \"us-est-1\""));
  EXPECT_THAT(of({.data = "s3://Bad_Bucket/x"}), HasSubstr("--data"));
  EXPECT_THAT(of({.fsx_gb = 1000}), HasSubstr("--fsx-gb"));
  EXPECT_THAT(of({.hours = -1}), HasSubstr("hours"));
  EXPECT_THAT(of({.forecast = "/no/such/file"}), HasSubstr("/no/such/file"));
  EXPECT_THAT(of({.hours = 2, .forecast = "plan.json"}), HasSubstr("--hours and --forecast both"));
}

TEST(Prices, ADamagedFileIsNamedWithLineAndColumn) {
  const std::string header =
      "instance_type,region,on_demand_usd_per_hour,vcpus,memory_gib,gpu_name,gpu_count,"
      "gpu_memory_gib_each,spot_no_local_zones_usd_per_hour\n";
  const auto of = [&](const std::string& text) {
    return message_of([&] { parse_prices(text, "file.csv"); });
  };
  EXPECT_THAT(of(header + "a,b,cheap,8,16,,,,\n"),
              HasSubstr("file.csv, line 2, column on_demand_usd_per_hour: \"cheap\""));
  EXPECT_THAT(of(header + "a,b,nan,8,16,,,,\n"), HasSubstr("nan"));
  EXPECT_THAT(of(header + "a,b,1e300,8,16,,,,\n"), HasSubstr("1e300"));
  EXPECT_THAT(of(header + "a,b\n"), HasSubstr("2 cells, not 9"));
  EXPECT_THAT(of("gpu_name,gpu_name," + header + "a,b,1,8,16,,,,,\n"),
              HasSubstr("names the column \"gpu_name\" twice"));
  EXPECT_THAT(of("type,price\n"), HasSubstr("no column instance_type"));
  EXPECT_THAT(of(header), HasSubstr("no prices"));
  EXPECT_THAT(of(""), HasSubstr("no column"));
}

TEST(Prices, EveryTypeHasANetworkAndEveryGpuASpeed) {
  for (const Price& price : price_snapshot().prices) {
    EXPECT_GT(network_of(price.type).gbit_per_second, 0) << price.type;
    EXPECT_TRUE(price.gpu.empty() || relative_speed(price.gpu) > 0) << price.gpu;
  }
}

}  // namespace
}  // namespace lockstep::cloud
