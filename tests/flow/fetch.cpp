// Downloads one file: what weights_test.py runs against its servers.
//
// usage: lockstep_fetch ADDRESS SHA256 MOST_BYTES PATH
#include <cstdio>
#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/download/download.h"

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  try {
    lockstep::download::fetch({.address = argv[1], .sha256 = argv[2], .most_bytes = std::atoll(argv[3])},
                              argv[4]);
    return 0;
  } catch (const lockstep::Error& error) {
    std::fprintf(stderr, "%s: %s\nhint: %s\n", std::string(lockstep::name_of(error.code())).c_str(),
                 error.message().c_str(), error.hint().c_str());
    return 1;
  }
}
