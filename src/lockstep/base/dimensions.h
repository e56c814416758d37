// Labels of a tensor's dimensions: one letter each, as in MATLAB's dlarray.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Throws invalid_option unless every letter is S (spatial), C (channel), B (batch), T (time) or U
/// (unspecified), and C, B, T stand once at most.
void check_dimensions(std::string_view labels);

/// "SSCB" from "BCSS" is {2, 3, 1, 0}: tensor.permute() with it returns the dimensions in the order `to`.
/// Equal letters (S, U) keep their order. Throws invalid_option if the two have different letters.
std::vector<int64_t> dimension_order(std::string_view from, std::string_view to);

/// Throws invalid_option if a tensor of this shape cannot have these labels. `what` is its name in the
/// message.
void check_labelled(std::string_view labels, const std::vector<int64_t>& shape, const std::string& what);

}  // namespace lockstep
