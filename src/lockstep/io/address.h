// Addresses of data beyond this machine: s3://bucket/photos?region=eu-west-1.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::io {

/// Whether it begins with a scheme, as "s3://".
bool is_address(std::string_view text);

/// "s3" of "s3://bucket/photos"; empty when it is no address.
std::string_view scheme_of(std::string_view text);

/// An address without options (?...) and without what stands in front of the bucket (key:secret@), fit for
/// messages and files; other texts as they are. Without a slash at the end.
std::string public_name(std::string_view text);

/// Throws invalid_option, without repeating it, when an address holds a key, secret or password: it would be
/// seen in lists of processes, and kept in the run folder. Other texts pass.
void refuse_secrets(std::string_view text);

}  // namespace lockstep::io
