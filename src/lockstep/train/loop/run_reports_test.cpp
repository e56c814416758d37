#include "lockstep/train/loop/run_reports.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/comm/communicator.h"

namespace lockstep::train {
namespace {

using testing::Each;
using testing::IsEmpty;
using testing::SizeIs;

TEST(RunReports, WarningsOfAStepReachTheObserverBetweenSteps) {
  const Plan plan;
  const nn::Network network;
  const auto comm = comm::make_communicator();
  std::vector<std::thread::id> called_on;
  const TrainingSetup setup{.plan = plan,
                            .network = network,
                            .train = nullptr,
                            .observer =
                                [&](const record::Event&) {
                                  called_on.push_back(std::this_thread::get_id());
                                  return record::Control::stop;
                                },
                            .comm = *comm};
  const RunState state;
  const Schedule schedule;
  RunEnd end(setup);
  RunReports reports(setup, state, schedule, end);
  std::thread([&] { reports.warn_after_step("nothing is recorded"); }).join();
  std::thread([&] { reports.warn_after_step("nothing here either"); }).join();
  EXPECT_THAT(called_on, IsEmpty());
  EXPECT_FALSE(end.gives_up_step()) << "the observer would end the run in the middle of a step";
  reports.say_warnings();
  EXPECT_THAT(called_on, SizeIs(2));
  EXPECT_THAT(called_on, Each(std::this_thread::get_id()));
  EXPECT_EQ(end.agree(), NextMove::end);
  EXPECT_EQ(end.reason(), EndReason::observer);
  reports.say_warnings();
  EXPECT_THAT(called_on, SizeIs(2)) << "each once";
}

}  // namespace
}  // namespace lockstep::train
