// Ranks that read other data would train on without a word; so they are compared before the first step.
#include <cstring>

#include <ATen/Functions.h>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"
#include "lockstep/base/json.h"
#include "lockstep/train/custom/built_model.h"

namespace lockstep::train {
namespace {

at::Tensor bytes_of(const std::string& text) {
  const at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

Json listing_of(const data::Dataset& dataset) {
  return {{"count", dataset.size()},
          {"hash", dataset.empty() ? 0 : dataset.store().listing_hash()},
          {"path", dataset.empty() ? "none" : dataset.store().source(0)},
          {"host", host_name()}};
}

std::string described(size_t rank, const Json& listing) {
  return "rank " + std::to_string(rank) + " on " + listing.at("host").get<std::string>() + " has " + std::to_string(listing.at("count").get<int64_t>()) + " samples, the first \"" +
         listing.at("path").get<std::string>() + "\"";
}

}  // namespace

void check_same_dataset(comm::Communicator& comm, const data::Dataset& dataset) {
  const std::string own = listing_of(dataset).dump(-1, ' ', false, Json::error_handler_t::replace);
  std::vector<Json> all;
  for (const at::Tensor& bytes : comm.all_gather(bytes_of(own))) {
    const auto* text = static_cast<const char*>(bytes.const_data_ptr());
    all.push_back(Json::parse(text, text + bytes.numel()));
  }
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].at("hash") == all[0].at("hash") && all[rank].at("count") == all[0].at("count")) continue;
    throw Error(ErrorCode::invalid_option, "the ranks have different data: " + described(rank, all[rank]) + "; " + described(0, all[0]),
                "all ranks need the same files, labels and order");
  }
}

}  // namespace lockstep::train
