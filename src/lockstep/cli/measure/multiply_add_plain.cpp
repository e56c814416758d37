#define LOCKSTEP_MULTIPLY_ADD multiply_add_plain
#include "lockstep/cli/measure/multiply_add_body.h"
