#include <gmock/gmock.h>

#include "lockstep/pool/task.h"

namespace lockstep::pool {
namespace {

struct Forgotten {
  int64_t one = 0;
  at::Tensor two{};
  static constexpr auto describe = [](auto& self, auto&& field) { field("one", self.one, ""); };
};

void take(Worker&, const Forgotten&) {}
void other(Worker&) {}

std::string message_of(const TaskTable& tasks) {
  try {
    check_tasks(tasks);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Task, EveryMemberMustBeDescribed) {
  EXPECT_THAT(message_of({task<take>("take")}),
              testing::HasSubstr("has 2 members, of which 1 are described"));
  EXPECT_THAT(message_of({task<take>("take")}), testing::HasSubstr("in task \"take\""));
}

TEST(Task, NamesAreUnique) {
  EXPECT_THAT(message_of({task<other>("same"), task<other>("same")}),
              testing::HasSubstr("two tasks are named \"same\""));
  EXPECT_EQ(message_of({task<other>("one"), task<other>("two")}), "");
}

TEST(Task, AnUnknownNameHasTheNearest) {
  const TaskTable tasks{task<other>("digits")};
  EXPECT_EQ(find_task(tasks, "digits").name, "digits");
  try {
    find_task(tasks, "digit");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_THAT(error.message(), testing::HasSubstr("did you mean \"digits\"?"));
  }
}

}  // namespace
}  // namespace lockstep::pool
