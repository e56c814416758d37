#include "lockstep/data/internal/image_listing.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <new>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/kinds.h"
#include "lockstep/data/internal/reopened.h"
#include "lockstep/io/address.h"

namespace lockstep::data {
namespace {

// A hash of an image's size and change time; 0 if the listing does not have them.
uint64_t contents_of(const io::Listed& listed) {
  if (!listed.changed) return 0;
  const std::array<int64_t, 2> numbers{listed.size, *listed.changed};
  return hash_of(listed.path, hash_of(std::as_bytes(std::span(numbers))));
}

class ImagesInStore : public Datastore, public Reopened {
 public:
  ImagesInStore(std::shared_ptr<const io::ByteStore> store, ImageListing listing,
                const SourceOptions& options, const std::string& opened_from)
      : store_(std::move(store)),
        listing_(std::move(listing)),
        options_(options),
        opened_from_(io::is_address(opened_from)
                         ? opened_from
                         : std::filesystem::absolute(opened_from).lexically_normal().string()) {}

  int64_t size() const override { return static_cast<int64_t>(listing_.entries.size()); }
  const std::vector<std::string>& classes() const override { return listing_.classes; }
  int64_t label(int64_t index) const override { return at(index).label; }
  std::string source(int64_t index) const override {
    return store_->name() + "/" + std::string(listing_.path(at(index)));
  }
  int64_t parallel_reads() const override { return store_->parallel_reads(); }

  ImageSize image_size(int64_t index) const override {
    const std::string path = source(index);
    const io::FileName file = file_of(index);
    return naming(path, [&] {
      return stored_size(path, [&](int64_t offset, std::span<char> destination) {
        return store_->read_at(file, offset, destination);
      });
    });
  }

  void read_to(int64_t index, const PixelSink& sink) const override {
    const std::string path = source(index);
    naming(path, [&] { decode(path, store_->read(file_of(index), kMostFileBytes), sink); });
  }

  uint64_t listing_hash() const override {
    uint64_t hash = static_cast<uint64_t>(size());
    for (const std::string& name : listing_.classes) hash = hash_of(name, hash);
    for (const ImageEntry& entry : listing_.entries)
      hash = hash_of(listing_.path(entry), hash + static_cast<uint64_t>(entry.label));
    return hash;
  }

  // A folder's listing has no times, so the folder is listed again.
  uint64_t content_hash() const override {
    if (listing_.contents_known && listing_.contents != 0) return listing_.contents;
    uint64_t sum = 0;
    bool all_known = true;
    store_->list(io::Sizes::wanted, [&](const io::Listed& listed) {
      const bool wanted = !is_hidden(listed.path.substr(listed.path.rfind('/') + 1));
      if (listed.kind == io::Listed::Kind::file && wanted && is_image_name(listed.path)) {
        const uint64_t contents = contents_of(listed);
        all_known &= contents != 0;
        sum += contents;
      }
      return wanted;
    });
    return all_known ? sum : 0;
  }

  std::string identity() const override { return opened_from() + "/" + as_hex(listing_hash()); }

  const SourceOptions& opened_with() const override { return options_; }
  std::string opened_from() const override { return opened_from_; }

 private:
  const ImageEntry& at(int64_t index) const { return listing_.entries.at(static_cast<size_t>(index)); }
  io::FileName file_of(int64_t index) const { return {listing_.path(at(index)), at(index).bytes}; }

  template <class Work>
  static auto naming(const std::string& path, Work&& work) -> decltype(work()) {
    try {
      return work();
    } catch (const DecodeError& error) {
      throw BadImage(path, error.what());
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::out_of_memory, "not enough memory to decode \"" + path + "\"",
                  "use fewer reading threads, or smaller images");
    }
  }

  const std::shared_ptr<const io::ByteStore> store_;
  const ImageListing listing_;
  const SourceOptions options_;
  const std::string opened_from_;
};

}  // namespace

int32_t ImageListing::place_of(const std::string& class_name) {
  const auto [at, is_new] = class_places.try_emplace(class_name, static_cast<int32_t>(classes.size()));
  if (is_new) classes.push_back(class_name);
  return at->second;
}

void ImageListing::add(const Files& files, const Files::Name& image, int32_t class_place) {
  const uint64_t content = contents_of(files.listed(image));
  contents_known &= content != 0;
  contents += content;
  entries.push_back({image.offset, image.bytes, image.length, class_place});
}

void put_in_order(const std::string& root, ImageListing& listing, const SourceOptions& options) {
  std::vector<std::string> sorted = listing.classes;
  std::sort(sorted.begin(), sorted.end());
  const std::vector<int64_t> places = match_classes(sorted, root, options);
  std::vector<int32_t> new_label(sorted.size());
  for (size_t i = 0; i < sorted.size(); ++i)
    new_label[static_cast<size_t>(listing.class_places.at(sorted[i]))] = static_cast<int32_t>(places[i]);
  for (ImageEntry& entry : listing.entries) entry.label = new_label[static_cast<size_t>(entry.label)];
  std::sort(listing.entries.begin(), listing.entries.end(), [&](const ImageEntry& a, const ImageEntry& b) {
    return a.label != b.label ? a.label < b.label : listing.path(a) < listing.path(b);
  });
  listing.classes = options.classes;
  if (listing.classes.empty()) listing.classes = std::move(sorted);
  listing.class_places.clear();
}

Dataset images_in(std::shared_ptr<const io::ByteStore> store, ImageListing listing,
                  const SourceOptions& options, const std::string& opened_from) {
  return Dataset(std::make_shared<ImagesInStore>(std::move(store), std::move(listing), options, opened_from));
}

}  // namespace lockstep::data
