// How a program of Lockstep prints an error (cli/failure.h), for those that read it from what it printed.
#pragma once

#include <string_view>

namespace lockstep {

/// Before its message, and before its hint, at the beginnings of lines. Lines between them are its context.
inline constexpr std::string_view kErrorTitle = "lockstep: ", kHintTitle = "  hint: ";

}  // namespace lockstep
