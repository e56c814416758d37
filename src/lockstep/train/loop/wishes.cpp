#include "lockstep/train/loop/wishes.h"

namespace lockstep::train {
namespace {

std::string words_of(const record::Request& asked) {
  switch (asked.request) {
    case record::RequestKind::stop:
      return "the step under way is dropped, and a checkpoint is saved";
    case record::RequestKind::finish:
      return "the run ends after this step and writes its weights";
    case record::RequestKind::checkpoint:
      return "a checkpoint is saved after this step";
    case record::RequestKind::report:
      return "the steps that are divisible by " + std::to_string(asked.every) + " are logged";
  }
  return "";
}

}  // namespace

void grant(Wishes& wishes, const record::Request& asked) {
  switch (asked.request) {
    case record::RequestKind::stop:
      wishes.stop = true;
      break;
    case record::RequestKind::finish:
      wishes.finish = true;
      break;
    case record::RequestKind::checkpoint:
      wishes.checkpoint = true;
      break;
    case record::RequestKind::report:
      wishes.log_every = asked.every;
      break;
  }
}

record::Answer answer_to(const record::Request& asked) {
  return {.request = describe_detail::as_text(asked.request),
          .id = asked.id,
          .from = asked.from,
          .answer = words_of(asked)};
}

std::string ending_notice(const record::Request& asked) {
  if (asked.request == record::RequestKind::stop)
    return "stopping: " + asked.from + " asked for it; saving a checkpoint";
  if (asked.request == record::RequestKind::finish)
    return "finishing: " + asked.from + " asked for it; writing the weights";
  return "";
}

}  // namespace lockstep::train
