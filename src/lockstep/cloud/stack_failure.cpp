#include "lockstep/cloud/internal/stack_failure.h"

#include "lockstep/base/text.h"

namespace lockstep::cloud {
namespace {

constexpr const char* kRemoval = "lockstep cloud remove ";

struct Failure {
  std::string text;
  std::string hint;
};

Json cause_of(const Json& state) { return state.value("cause", Json::object()); }

// In AWS's words.
std::string text_of(const Json& state) {
  const Json cause = cause_of(state);
  std::string text = cause.value("text", "");
  if (text.empty()) text = state.value("reason", "");
  const std::string resource = cause.value("resource", "");
  return (resource.empty() ? "" : resource + ": ") + text;
}

Failure failure_of(const Json& state, const ClusterRecord& record) {
  const std::string text = text_of(state);
  const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
  const std::string& region = record.request.region;
  const std::string removal = kRemoval + record.name + " removes what was made";
  if (cause_of(state).value("bootstrap", false)) return {"a machine could not be set up", removal};
  if (has("InsufficientInstanceCapacity") || has("InsufficientReservedInstanceCapacity"))
    return {"AWS has no such machines free in " + region + " now", "try another --region, --type, or later"};
  if (has("LimitExceeded") || has("MaxSpotInstanceCountExceeded"))
    return {"the account's quota in " + region + " is too small", "ask AWS for more in Service Quotas"};
  if (has("ExpiredToken") || has("token included in the request is expired"))
    return {"the keys for AWS expired while it was made", removal + ", with new keys"};
  if (has("not authorized"))
    return {"a right is missing", "docs/cloud.md has the policy that Lockstep needs"};
  return {text, removal};
}

Error error_with_line(const std::string& text, const std::string& hint, const Json& state) {
  Error error(ErrorCode::cluster, printable(text), printable(hint));
  const Json cause = cause_of(state);
  if (const std::string line = cause.value("line", ""); !line.empty())
    error.add_context(printable(cause.value("log", "the log") + " says: " + line));
  return error;
}

}  // namespace

Error creation_error(const Json& state, const ClusterRecord& record) {
  Failure failure = failure_of(state, record);
  const std::string stack = state.value("stack", "");
  const bool is_as_before = stack == "UPDATE_ROLLBACK_COMPLETE";
  if (is_as_before && failure.hint.starts_with(kRemoval))
    failure.hint = "lockstep cloud resize " + record.name + " tries again";
  return error_with_line("the cluster " + quote(record.name) +
                             (is_as_before ? " was not changed (" : " failed (") + stack +
                             "): " + failure.text,
                         failure.hint, state);
}

Error removal_error(const Json& state, const std::string& name) {
  return error_with_line("AWS cannot remove " + quote(name) + ": " + text_of(state),
                         "repeat the command; it begins where it ended", state);
}

}  // namespace lockstep::cloud
