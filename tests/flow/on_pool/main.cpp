// Training, predicting and custom loops on pools: by a session, and in tasks of threads and processes.
#include <gtest/gtest.h>

#include "lockstep/train/tasks/run.h"

#include "tasks.h"

namespace lockstep {

pool::Session* session = nullptr;

}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  return train::run(
      argc, argv,
      {train_task, shown_task, predict_task, by_hand_task, ask_task, return_task, info_task, plain_net_task},
      [&](pool::Session& own) {
        session = &own;
        testing::InitGoogleTest(&argc, argv);
        return RUN_ALL_TESTS();
      });
}
