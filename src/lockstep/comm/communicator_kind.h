// The ways in which ranks reach each other.
#pragma once

#include <array>

namespace lockstep::comm {

/// What carries the ranks' words. auto_: memory where all ranks are one user's on one machine, else gloo.
enum class CommunicatorKind { auto_, shared, gloo };
constexpr auto enum_names(CommunicatorKind) { return std::array{"auto", "shared", "gloo"}; }

}  // namespace lockstep::comm
