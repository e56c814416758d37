#include "lockstep/object_store/failure.h"

#include <array>
#include <string_view>
#include <vector>

namespace lockstep::object_store {
namespace {

constexpr const char* kKeys =
    "keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from AWS_PROFILE in ~/.aws, or from the "
    "machine's role";
constexpr const char* kGoogleKeys =
    "keys come from the file that GOOGLE_APPLICATION_CREDENTIALS names, from gcloud auth application-default "
    "login, or from the machine's role";
constexpr const char* kAzureKeys =
    "keys come from AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET, from az login, or from the "
    "machine's role";
constexpr const char* kEndpoint =
    "check the network and the endpoint: AWS_ENDPOINT_URL, or ?scheme=http&endpoint_override=HOST:PORT in "
    "the address";
constexpr const char* kNetwork = "check the network, and the name of the bucket or account";

struct Case {
  std::vector<std::string_view> words;  // one of them is in the text
  ErrorCode code;
  const char* why;
  const char* hint;
};

// Arrow has one kind of error for all of these, so the text decides. The first entry that fits is used.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {{"NO_SUCH_BUCKET", "NoSuchBucket"},
       ErrorCode::not_found,
       "there is no such bucket",
       "check the name, and that it lies at this endpoint and in this region"},
      {{"INVALID_ACCESS_KEY_ID", "InvalidAccessKeyId"},
       ErrorCode::invalid_option,
       "the server does not know the key id",
       kKeys},
      {{"SIGNATURE_DOES_NOT_MATCH", "SignatureDoesNotMatch"},
       ErrorCode::invalid_option,
       "the secret key does not fit the key id",
       kKeys},
      {{"EXPIRED", "Expired", "INVALID_CLIENT_TOKEN_ID", "InvalidToken", "TOKEN_REFRESH_REQUIRED",
        "TIME_TOO_SKEWED", "TimeTooSkewed"},
       ErrorCode::invalid_option,
       "the key has run out, or this machine's clock is wrong",
       kKeys},
      {{"ACCESS_DENIED", "AccessDenied", "HTTP status 403", "PERMISSION_DENIED", "UNAUTHENTICATED", "OAuth2",
        "Credentials23Auth"},
       ErrorCode::invalid_option,
       "access denied: no key was found, or it does not allow this",
       kKeys},
      {{"MOVED_PERMANENTLY", "PERMANENT_REDIRECT", "HTTP status 301", "AuthorizationHeaderMalformed"},
       ErrorCode::invalid_option,
       "the bucket lies in another region",
       "set AWS_REGION, or ?region=NAME in the address"},
      {{"Path does not exist", "NO_SUCH_KEY", "NoSuchKey", "HTTP status 404"},
       ErrorCode::not_found,
       "there is no such object or folder",
       "check the path"},
      {{"Invalid: "},
       ErrorCode::invalid_option,
       nullptr,
       "an address is s3://BUCKET/FOLDER, with ?region=, ?scheme= and ?endpoint_override= if need be"},
  };
  return all;
}

// The hints of the table are for s3://.
const char* hint_for(const std::string& name, const char* hint) {
  const bool google = name.starts_with("gs://") || name.starts_with("gcs://"),
             azure = name.starts_with("abfs");
  if (hint == kKeys && (google || azure)) return google ? kGoogleKeys : kAzureKeys;
  return hint == kEndpoint && (google || azure) ? kNetwork : hint;
}

// One line, without Arrow's place in its own sources.
std::string in_short(const std::string& words) {
  std::string text = words.substr(0, words.find('\n'));
  if (const size_t at = text.find(" operation: "); at != std::string::npos) text = text.substr(at + 12);
  if (const size_t at = text.find(". Detail:"); at != std::string::npos) text.resize(at);
  constexpr size_t kMost = 160;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

}  // namespace

Error failure_of(const std::string& verb, const std::string& name, const std::string& words) {
  const std::string begin = "cannot " + verb + " \"" + name + "\": ";
  for (const Case& one : cases()) {
    for (const std::string_view word : one.words) {
      if (words.find(word) != std::string::npos)
        return {one.code, begin + (one.why == nullptr ? in_short(words) : one.why), hint_for(name, one.hint)};
    }
  }
  return {ErrorCode::communication, begin + "the server does not answer (" + in_short(words) + ")",
          hint_for(name, kEndpoint)};
}

}  // namespace lockstep::object_store
