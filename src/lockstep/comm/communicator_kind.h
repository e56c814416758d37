// The ways in which ranks reach each other.
#pragma once

#include <array>

namespace lockstep::comm {

/// The means of communication. auto_: shared memory where all ranks belong to one user on one machine, else
/// gloo.
enum class CommunicatorKind { auto_, shared, gloo };
constexpr auto enum_names(CommunicatorKind) { return std::array{"auto", "shared", "gloo"}; }

}  // namespace lockstep::comm
