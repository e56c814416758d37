// Ranks with different data would train without any error, so their data are compared before the first step.
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <ATen/Functions.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/host.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/data/sequences.h"
#include "lockstep/train/custom/built_model.h"

namespace lockstep::train {
namespace {

constexpr int64_t kHashesAtOnce = 1 << 16;

at::Tensor bytes_of(const std::string& text) {
  const at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

// The values of all ranks, on every rank.
std::vector<Json> gathered(comm::Communicator& comm, const Json& own) {
  std::vector<Json> all;
  for (const at::Tensor& bytes :
       comm.all_gather(bytes_of(own.dump(-1, ' ', false, Json::error_handler_t::replace)))) {
    const auto* text = static_cast<const char*>(bytes.const_data_ptr());
    all.push_back(Json::parse(text, text + bytes.numel()));
  }
  return all;
}

Json listing_of(const data::Dataset& dataset) {
  return {{"count", dataset.size()},
          {"hash", dataset.empty() ? 0 : dataset.store().listing_hash()},
          {"path", dataset.empty() ? "none" : dataset.store().source(0)},
          {"host", host_name()}};
}

std::string class_of(const data::Dataset& dataset, int64_t index) {
  const int64_t label = dataset.store().label(index);
  return label < 0 ? "none"
                   : std::to_string(label) + " \"" + dataset.classes().at(static_cast<size_t>(label)) + "\"";
}

Json sample_of(const data::Dataset& dataset, int64_t index) {
  if (index >= dataset.size()) return nullptr;
  return {{"path", dataset.store().source(index)}, {"class", class_of(dataset, index)}};
}

// Two ranks may have the data in different folders. The root is the part of a path before the names that the
// ranks' first paths have in common at their end.
std::string root_of(const std::string& path, const std::string& other) {
  const auto begins_name = [](const std::string& text, size_t from_end) {
    return from_end == text.size() || text[text.size() - 1 - from_end] == '/';
  };
  size_t same = 0, names = 0;
  while (same < std::min(path.size(), other.size()) &&
         path[path.size() - 1 - same] == other[other.size() - 1 - same]) {
    ++same;
    if (begins_name(path, same) && begins_name(other, same)) names = same;
  }
  return names == 0 ? "" : path.substr(0, path.size() - names);
}

// The part of an image's source that listings include: the path below the root, or the number in a file.
std::string_view below(std::string_view root, std::string_view source) {
  const size_t mark = source.rfind('#');
  const bool numbered = mark != std::string_view::npos && mark + 1 < source.size() &&
                        source.find_first_not_of("0123456789", mark + 1) == std::string_view::npos;
  if (numbered) return source.substr(mark);
  return source.starts_with(root) ? source.substr(root.size()) : source;
}

uint64_t hash_of_sequence(const data::Datastore& store, int64_t index, uint64_t seed) {
  const std::vector<float> values = data::read_values(store, index);
  return hash_of(std::as_bytes(std::span(values)),
                 hash_of(std::as_bytes(store.time_step_labels(index)), seed));
}

// Over the parts that listings include: the path of an image, or the values of a sequence, and the class.
uint64_t hash_of_sample(const data::Dataset& dataset, int64_t index, const std::string& root) {
  const data::Datastore& store = dataset.store();
  const uint64_t of_class = hash_of(class_of(dataset, index));
  return store.kind() == data::SampleKind::sequence ? hash_of_sequence(store, index, of_class)
                                                    : hash_of(below(root, store.source(index)), of_class);
}

// The first sample that differs between rank 0 and `other`; the smaller count if there is none. Every rank
// calls it.
int64_t first_difference(comm::Communicator& comm, const data::Dataset& dataset,
                         const std::vector<Json>& listings, size_t other) {
  const auto rank = static_cast<size_t>(comm.rank());
  const bool compared = rank == 0 || rank == other;
  const auto path = [&](size_t of) { return listings[of].at("path").get<std::string>(); };
  const std::string root = compared ? root_of(path(rank), path(rank == 0 ? other : 0)) : "";
  const int64_t count =
      std::min(listings[0].at("count").get<int64_t>(), listings[other].at("count").get<int64_t>());
  for (int64_t begin = 0; begin < count; begin += kHashesAtOnce) {
    const int64_t size = std::min(kHashesAtOnce, count - begin);
    const at::Tensor hashes = at::empty({compared ? size : 0}, at::kLong);
    for (int64_t i = 0; i < hashes.numel(); ++i)
      hashes.data_ptr<int64_t>()[i] = static_cast<int64_t>(hash_of_sample(dataset, begin + i, root));
    const std::vector<at::Tensor> all = comm.all_gather(hashes);
    const int64_t* first = all[0].const_data_ptr<int64_t>();
    const int64_t same =
        std::mismatch(first, first + size, all[other].const_data_ptr<int64_t>()).first - first;
    if (same < size) return begin + same;
  }
  return count;
}

std::string name_of_rank(size_t rank, const Json& listing) {
  return "rank " + std::to_string(rank) + " (" + listing.at("host").get<std::string>() + ")";
}

// own, other: each rank's sample, null if it has none.
std::string difference(int64_t index, const Json& own, const std::string& rank, const Json& other,
                       const std::string& other_rank) {
  const std::string begin = "sample " + std::to_string(index) + " is ";
  if (own.is_null() || other.is_null()) {
    const auto& [there, without] = own.is_null() ? std::pair(other_rank, rank) : std::pair(rank, other_rank);
    return begin + quote((own.is_null() ? other : own).at("path").get_ref<const std::string&>()) + " on " +
           there + ", and " + without + " has only " + counted(index, "sample");
  }
  const bool same_path = own.at("path") == other.at("path");
  const auto text = [&](const Json& sample) {
    return quote(sample.at("path").get_ref<const std::string&>()) +
           (same_path ? " of class " + sample.at("class").get<std::string>() : "");
  };
  return begin + text(own) + " on " + rank + " and " + text(other) +
         (own == other ? " with other values" : "") + " on " + other_rank;
}

}  // namespace

void check_same_dataset(comm::Communicator& comm, const data::Dataset& dataset) {
  const std::vector<Json> all = gathered(comm, listing_of(dataset));
  size_t other = 1;
  while (other < all.size() && all[other].at("hash") == all[0].at("hash") &&
         all[other].at("count") == all[0].at("count"))
    ++other;
  if (other == all.size()) return;
  const int64_t index = first_difference(comm, dataset, all, other);
  const std::vector<Json> samples = gathered(comm, sample_of(dataset, index));
  const std::string rank = name_of_rank(0, all[0]), other_rank = name_of_rank(other, all[other]);
  const bool found = !samples[0].is_null() || !samples[other].is_null();
  throw Error(ErrorCode::invalid_option,
              "the ranks have different data: " +
                  (found ? difference(index, samples[0], rank, samples[other], other_rank)
                         : "the samples on " + rank + " and on " + other_rank +
                               " are alike, but of other classes or chosen from other data"),
              "all ranks need the same files, labels and order");
}

}  // namespace lockstep::train
