#include "lockstep/cli/run_options.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/train/fit.h"

namespace lockstep::cli {

std::vector<FieldInfo> plan_fields() { return training_fields() + fields_of<JsonOutput>(); }

int run_plan(const Call& call, Console& console) {
  train::Job job;
  job.folder = call.words.front();
  const train::Plan plan = train::plan(job, training_options(call).options);
  console.print(settings_of<JsonOutput>(call).json ? to_json(plan).dump(2) + "\n" : plan_text(plan));
  return 0;
}

}  // namespace lockstep::cli
