// What the program was built from.
#pragma once

#include <string>

namespace lockstep::cli {

/// "commit 0123456789ab, g++ 12.2.0, LibTorch 2.15.0, kernels 89abcdef, ...". Two builds with the same text
/// give the same bits on the same machine.
std::string build_text();

}  // namespace lockstep::cli
