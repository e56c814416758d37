#include "lockstep/pool/task.h"

#include <algorithm>
#include <set>

#include "lockstep/base/text.h"

namespace lockstep::pool {

const AnyTask& find_task(const TaskTable& tasks, std::string_view name) {
  const auto found =
      std::find_if(tasks.begin(), tasks.end(), [&](const AnyTask& task) { return task.name == name; });
  if (found != tasks.end()) return *found;
  std::vector<std::string> names;
  for (const AnyTask& task : tasks) names.emplace_back(task.name);
  const std::string close = nearest(name, names);
  throw Error(ErrorCode::not_found,
              "there is no task \"" + std::string(name) + "\" in this program" +
                  (close.empty() ? "" : "; did you mean \"" + close + "\"?"),
              "list it where main calls run(argc, argv, {tasks}, client)");
}

void check_tasks(const TaskTable& tasks) {
  std::set<std::string_view> names;
  for (const AnyTask& task : tasks) {
    with_context([&] { return "in task \"" + std::string(task.name) + "\""; }, [&] { task.check(); });
    if (!names.insert(task.name).second)
      throw Error(ErrorCode::internal, "two tasks are named \"" + std::string(task.name) + "\"");
  }
}

}  // namespace lockstep::pool
