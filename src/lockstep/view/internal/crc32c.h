// CRC-32C (Castagnoli), as record files of TensorBoard use it.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::view {

uint32_t crc32c(std::string_view bytes);

/// Rotated and shifted, so that a checksum of data that contain checksums stays strong. Source: TensorFlow,
/// "TFRecords format details".
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace lockstep::view
