#include "lockstep/cli/measure/multiply_add.h"

#include "lockstep/device/isa.h"

namespace lockstep::cli::measure {

const MultiplyAdd& multiply_add() {
  return device::for_vector_unit(multiply_add_plain, multiply_add_avx2, multiply_add_avx512);
}

}  // namespace lockstep::cli::measure
