// c10d's gloo process group, bound to one address of this machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/base/share.h"

namespace lockstep::comm {

/// Connects this rank with all others. They meet at `store`, and reach this rank at `address` (an address of
/// this machine). Throws what c10d throws. Over PrefixStore("cpu/", PrefixStore("0/",
/// PrefixStore("default_pg", store))) it is the group of torch.distributed's init_process_group("gloo").
c10::intrusive_ptr<c10d::Backend> make_gloo_group(const c10::intrusive_ptr<c10d::Store>& store, Share share,
                                                  const std::string& address,
                                                  std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
