// A place in S3 as users write it.
#pragma once

#include <string>

namespace lockstep::cloud {

struct S3Location {
  std::string bucket;
  std::string prefix;  ///< without a slash at its ends; may be empty
};

/// s3://bucket/prefix. Throws invalid_option that names the option, for a bucket that S3 does not allow or a
/// prefix with characters that a policy would read as a pattern.
S3Location parse_s3_location(const std::string& text, const std::string& option);

}  // namespace lockstep::cloud
