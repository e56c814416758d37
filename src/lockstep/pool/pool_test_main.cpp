#include "lockstep/pool/test_tasks.h"

int main(int argc, char** argv) {
  using namespace lockstep::pool;
  return run(argc, argv,
             {echo_task, place_task, square_task, nap_task, await_task, sleep_task, fail_task, talk_task,
              weights_task, asked_task, circle_task, die_task, variable_task, listen_task, add_one_task,
              talk_and_fail_task},
             [&](Session& own) {
               session = &own;
               testing::InitGoogleTest(&argc, argv);
               return RUN_ALL_TESTS();
             });
}
