#define LOCKSTEP_MULTIPLY_ADD multiply_add_avx2
#include "lockstep/cli/measure/multiply_add_body.h"
