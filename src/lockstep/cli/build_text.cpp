#include "lockstep/cli/build_text.h"

namespace lockstep::cli {

std::string build_text() {
  return "commit " LOCKSTEP_COMMIT ", compiler " __VERSION__ ", " LOCKSTEP_BUILT_WITH;
}

}  // namespace lockstep::cli
