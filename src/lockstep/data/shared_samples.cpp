#include "lockstep/data/shared_samples.h"

#include <filesystem>
#include <system_error>
#include <unordered_set>

#include "lockstep/base/hash.h"
#include "lockstep/io/address.h"

namespace lockstep::data {
namespace {

std::string canonical(const std::string& path) {
  if (io::is_address(path)) return io::public_name(path);
  std::error_code code;
  const std::filesystem::path whole = std::filesystem::absolute(path, code);
  const std::filesystem::path found = std::filesystem::weakly_canonical(whole, code);
  return (code ? whole.lexically_normal() : found).string();
}

// Neighbouring samples are in the same folder, which is looked up once.
class Places {
 public:
  std::string of(const std::string& source) {
    const size_t end = source.rfind('/');
    const std::string folder = end == std::string::npos ? "." : source.substr(0, end + 1);
    if (folder != folder_) {
      folder_ = folder;
      place_ = canonical(folder);
      if (!place_.ends_with('/')) place_ += '/';
    }
    return place_ + source.substr(end == std::string::npos ? 0 : end + 1);
  }

 private:
  std::string folder_, place_;
};

// The length of the innermost folder that contains all samples, with the "/" at its end.
size_t length_of_root(const Dataset& dataset) {
  const std::string first = dataset.store().source(0);
  size_t length = first.rfind('/') + 1;  // 0 where there is none
  for (int64_t i = 1; i < dataset.size() && length > 0; ++i) {
    const std::string source = dataset.store().source(i);
    while (length > 0 && !source.starts_with(std::string_view(first).substr(0, length)))
      length = length < 2 ? 0 : first.rfind('/', length - 2) + 1;
  }
  return length;
}

}  // namespace

int64_t shared_samples(const Dataset& one, const Dataset& other) {
  const bool is_first_smaller = one.size() < other.size();
  const Dataset &few = is_first_smaller ? one : other, &many = is_first_smaller ? other : one;
  Places places;
  std::unordered_set<uint64_t> of_few;
  for (int64_t i = 0; i < few.size(); ++i) of_few.insert(hash_of(places.of(few.store().source(i))));
  int64_t shared = 0;
  for (int64_t i = 0; i < many.size(); ++i)
    shared += static_cast<int64_t>(of_few.erase(hash_of(places.of(many.store().source(i)))));
  return shared;
}

bool have_same_names(const Dataset& one, const Dataset& other) {
  if (one.size() != other.size()) return false;
  if (one.empty()) return true;
  const size_t of_one = length_of_root(one), of_other = length_of_root(other);
  for (int64_t i = 0; i < one.size(); ++i) {
    if (one.store().source(i).substr(of_one) != other.store().source(i).substr(of_other)) return false;
  }
  return true;
}

bool has_samples_at(const Dataset& dataset, const std::string& place) {
  const std::string at = canonical(place);
  Places places;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const std::string source = places.of(dataset.store().source(i));
    // "digits/0/1.png" is below "digits", and "train.ts:3" a part of "train.ts".
    if (source.starts_with(at) && (at.ends_with('/') || source.size() == at.size() ||
                                   std::string_view("/#:").find(source[at.size()]) != std::string_view::npos))
      return true;
  }
  return false;
}

}  // namespace lockstep::data
