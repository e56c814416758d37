#include "lockstep/train/loop/ranks.h"

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"

namespace lockstep::train {

Json broadcast_json(comm::Communicator& comm, const Json& own, const comm::WaitOptions& wait) {
  std::string text =
      own.dump(-1, ' ', false, Json::error_handler_t::replace);  // names of files may not be UTF-8
  const at::Tensor size = at::full({1}, static_cast<int64_t>(text.size()), at::kLong);
  comm.broadcast({size}, 0, wait);
  text.resize(static_cast<size_t>(size.item<int64_t>()));
  comm.broadcast({at::from_blob(text.data(), {static_cast<int64_t>(text.size())}, at::kByte)}, 0, wait);
  return Json::parse(text);
}

void compare_with_rank_0(const comm::Communicator& comm, const Json& own, const Json& rank_0,
                         const std::string& folder, const std::string& folder_of_rank_0) {
  for (const auto& [name, value] : own.items()) {
    const Json& expected = rank_0.contains(name) ? rank_0[name] : Json();
    if (expected == value) continue;
    const std::string who = "rank " + std::to_string(comm.rank()) + " on " + host_name();
    const bool data = name.ends_with("images") || name.ends_with("listing") || name == "classes";
    const std::string what =
        data ? " has other data in \"" + folder + "\" than rank 0 in \"" + folder_of_rank_0 + "\": its "
             : " cannot work with rank 0: its ";
    throw Error(ErrorCode::invalid_option,
                who + what + name + " is " + value.dump().substr(0, 200) + " where rank 0 has " +
                    expected.dump().substr(0, 200),
                data ? "give all ranks the same files, under the same names"
                : name == "arithmetic"
                    ? "--isa avx2 pins the instructions for all ranks; libraries and builds must be the same"
                    : "start all ranks with the same options");
  }
}

// Weights differ between ranks only because of broken hardware, or of libraries that the fingerprint does not
// cover.
void compare_hashes(comm::Communicator& comm, uint64_t hash, int64_t step) {
  const auto all = comm.all_gather(at::full({1}, static_cast<int64_t>(hash), at::kLong));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].item<int64_t>() == all[0].item<int64_t>()) continue;
    throw Error(
        ErrorCode::internal,
        "rank " + std::to_string(rank) + " has other weights than rank 0 after step " + std::to_string(step),
        "go on from the last checkpoint without the machine of that rank");
  }
}

}  // namespace lockstep::train
