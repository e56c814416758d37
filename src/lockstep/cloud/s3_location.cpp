#include "lockstep/cloud/s3_location.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::cloud {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr size_t kLeastBucket = 3;
constexpr size_t kMostBucket = 63;
constexpr size_t kMostPrefix = 512;

bool is_bucket(const std::string& name) {
  const auto edge = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return name.size() >= kLeastBucket && name.size() <= kMostBucket && edge(name.front()) &&
         edge(name.back()) && name.find("..") == std::string::npos &&
         std::all_of(name.begin(), name.end(), [&](char c) { return edge(c) || c == '-' || c == '.'; });
}

bool is_prefix(const std::string& name) {
  return name.size() <= kMostPrefix && std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return c > ' ' && c < 127 &&
                  std::string_view("*?$\"'\\{}<>`|;&").find(static_cast<char>(c)) == std::string_view::npos;
         });
}

}  // namespace

S3Location parse_s3_location(const std::string& text, const std::string& option) {
  const auto fail = [&](const std::string& reason) {
    throw Error(ErrorCode::invalid_option, "option " + option + " cannot be " + quote(text) + ": " + reason,
                "it has the form s3://bucket/prefix");
  };
  if (!text.starts_with(kScheme)) fail("it does not begin with s3://");
  const std::string rest = text.substr(kScheme.size());
  const size_t slash = rest.find('/');
  S3Location found{rest.substr(0, slash), slash == std::string::npos ? "" : rest.substr(slash + 1)};
  while (found.prefix.ends_with('/')) found.prefix.pop_back();
  if (!is_bucket(found.bucket))
    fail("its BucketName must have 3 to 63 lower-case letters, digits, dots and hyphens");
  if (!is_prefix(found.prefix)) fail("its prefix has characters that are not allowed here");
  return found;
}

}  // namespace lockstep::cloud
