// The error for a file of weights whose numbers have a type that no network has.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::nn {

/// Throws corrupt_data: "cannot read FILE: WHAT, which is not supported".
///   what  such as "tensor "w" has numbers of type "C64""
[[noreturn]] inline void unsupported_numbers(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorCode::corrupt_data,
              "cannot read " + quote(path.string()) + ": " + what + ", which is not supported",
              "convert its tensors, as with tensor.float(), and save them again");
}

}  // namespace lockstep::nn
