// Addresses of data on servers, such as s3://bucket/photos?region=eu-west-1.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::io {

/// Whether the text begins with a scheme, such as "s3://".
bool is_address(std::string_view text);

/// "s3" for "s3://bucket/photos"; empty if the text is not an address.
std::string_view scheme_of(std::string_view text);

/// An address without its options (?...), without the part before the bucket (key:secret@) and without a
/// trailing slash, for messages and files. Other texts are returned unchanged.
std::string public_name(std::string_view text);

/// Throws invalid_option if an address contains a key, secret or password, because process lists would show
/// it and the run folder would store it. The message does not repeat it. Other texts pass.
void refuse_secrets(std::string_view text);

}  // namespace lockstep::io
