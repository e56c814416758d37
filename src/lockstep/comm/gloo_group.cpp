// The only file that includes gloo's own headers. They are Debian's and older than the gloo in LibTorch, so
// this file uses only pointers to its classes.
#include "lockstep/comm/internal/gloo_group.h"

#define USE_C10D_GLOO  // LibTorch is built with it; its headers need this to show it
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace lockstep::comm {

c10::intrusive_ptr<c10d::Backend> make_gloo_group(const c10::intrusive_ptr<c10d::Store>& store, Share share,
                                                  const std::string& address,
                                                  std::chrono::milliseconds timeout) {
  const auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(share.rank),
                                                     static_cast<int>(share.size), options);
}

}  // namespace lockstep::comm
