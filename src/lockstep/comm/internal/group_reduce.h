// Adds the ranks' values, element by element in rank order.
#pragma once

#include <cstdint>
#include <vector>

#include <c10/core/ScalarType.h>

#include "lockstep/comm/communicator.h"

namespace lockstep::comm {

/// Throws invalid_option for a type that does not have this reduction, such as a mean of whole numbers.
void check_reducible(at::ScalarType type, Reduction reduction);

/// result[i] = sum, mean or largest of inputs[0][i], inputs[1][i], ... in this order. `result` may be one of
/// the inputs.
void reduce_elements(at::ScalarType type, Reduction reduction, const std::vector<const std::byte*>& inputs,
                     std::byte* result, int64_t count);

}  // namespace lockstep::comm
