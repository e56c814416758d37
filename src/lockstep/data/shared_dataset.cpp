#include "lockstep/data/shared_dataset.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/data/internal/kinds.h"
#include "lockstep/data/internal/mapped_file.h"
#include "lockstep/data/internal/reopened.h"
#include "lockstep/data/sequences.h"

namespace lockstep::data {
namespace {

constexpr const char* kName = "the memory of a dataset that processes share";

// Precedes the samples: the length of the description, and the description as CBOR.
using Length = uint64_t;

Descriptor make_memory() {
  Descriptor memory(::memfd_create("lockstep-dataset", MFD_CLOEXEC));
  if (!memory) throw errno_error(errno, "make", kName);
  return memory;
}

std::string path_of(pid_t process, const Descriptor& memory) {
  return "/proc/" + std::to_string(process) + "/fd/" + std::to_string(memory.get());
}

void write_at(int file, int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw errno_error(errno, "write", kName);
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
}

Json to_json(const SourceOptions& options) {
  return {{"labels", options.labels},
          {"on_bad_sample", options.on_bad_sample},
          {"classes", options.classes},
          {"unlabelled", options.unlabelled},
          {"most_memory", options.most_memory}};
}

SourceOptions options_in(const Json& json) {
  return {.labels = json.at("labels").get<Labels>(),
          .on_bad_sample = json.at("on_bad_sample").get<OnBadSample>(),
          .classes = json.at("classes").get<std::vector<std::string>>(),
          .unlabelled = json.at("unlabelled").get<bool>(),
          .most_memory = json.at("most_memory").get<int64_t>()};
}

// Null if another process cannot open the dataset itself.
Json description_of_files(const Datastore& store) {
  if (const auto* files = dynamic_cast<const Reopened*>(&store)) {
    return {{"path", files->opened_from()},
            {"options", to_json(files->opened_with())},
            {"listing", store.listing_hash()}};
  }
  const auto whole = store.whole();
  if (whole == nullptr) return nullptr;
  Json description = description_of_files(*whole);
  if (description.is_null()) return nullptr;
  Json indices = Json::array();
  for (int64_t i = 0; i < store.size(); ++i) indices.push_back(store.index_in_whole(i));
  return {{"whole", std::move(description)}, {"indices", std::move(indices)}};
}

Dataset open_files(const Json& description) {
  if (description.contains("whole"))
    return open_files(description["whole"]).subset(description.at("indices").get<std::vector<int64_t>>());
  const auto path = description.at("path").get<std::string>();
  const SourceOptions options = options_in(description.at("options"));
  Files files(path, {.most_memory = options.most_memory}, source_kinds());
  const auto open = files.one_file() ? open_image_table : open_image_folder;
  Dataset dataset = open(std::move(files), options).dataset;
  if (dataset.store().listing_hash() == description.at("listing").get<uint64_t>()) return dataset;
  throw Error(ErrorCode::corrupt_data, "\"" + path + "\" has changed since the client opened it",
              "do not change the data while they are in use");
}

std::string bytes_of(const Datastore& store, int64_t index) {
  if (store.kind() == SampleKind::image) {
    const Image image = store.read(index);
    return {reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size()};
  }
  const std::vector<float> values = read_values(store, index);
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

Json describe_samples(const Datastore& store) {
  Json samples{{"classes", store.classes()},
               {"sequences", store.kind() == SampleKind::sequence},
               {"labels_steps", store.labels_time_steps()},
               {"in_memory", store.in_memory()},
               {"slots", store.slots()},
               {"listing", store.listing_hash()},
               {"content", store.content_hash()},
               {"identity", store.identity()}};
  for (const char* list : {"labels", "sources", "sizes", "continues", "steps"}) samples[list] = Json::array();
  for (int64_t i = 0; i < store.size(); ++i) {
    const ImageSize size = store.image_size(i);
    const std::span<const int64_t> steps = store.time_step_labels(i);
    samples["labels"].push_back(store.label(i));
    samples["sources"].push_back(store.source(i));
    samples["sizes"].push_back({size.channels, size.height, size.width});
    samples["continues"].push_back(store.continues(i));
    samples["steps"].push_back(std::vector<int64_t>(steps.begin(), steps.end()));
  }
  return samples;
}

// Samples that another process has read.
class SharedSamples : public Datastore {
 public:
  SharedSamples(const OpenFile& file, int64_t file_bytes, int64_t first, const Json& samples)
      : memory_(file.get(), file_bytes, kName),
        classes_(samples.at("classes").get<std::vector<std::string>>()),
        sources_(samples.at("sources").get<std::vector<std::string>>()),
        labels_(samples.at("labels").get<std::vector<int64_t>>()),
        steps_(samples.at("steps").get<std::vector<std::vector<int64_t>>>()),
        continues_(samples.at("continues").get<std::vector<bool>>()),
        identity_(samples.at("identity").get<std::string>()),
        slots_(samples.at("slots").get<int64_t>()),
        listing_(samples.at("listing").get<uint64_t>()),
        content_(samples.at("content").get<uint64_t>()),
        kind_(samples.at("sequences").get<bool>() ? SampleKind::sequence : SampleKind::image),
        labels_time_steps_(samples.at("labels_steps").get<bool>()),
        in_memory_(samples.at("in_memory").get<bool>()) {
    for (const Json& size : samples.at("sizes")) {
      sizes_.push_back({size.at(0).get<int64_t>(), size.at(1).get<int64_t>(), size.at(2).get<int64_t>()});
      offsets_.push_back(first);
      first += bytes_in(sizes_.back(), kind_);
    }
  }

  static int64_t bytes_in(const ImageSize& size, SampleKind kind) {
    return size.bytes() * (kind == SampleKind::sequence ? static_cast<int64_t>(sizeof(float)) : 1);
  }

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t index) const override { return labels_.at(static_cast<size_t>(index)); }
  std::string source(int64_t index) const override { return sources_.at(static_cast<size_t>(index)); }
  ImageSize image_size(int64_t index) const override { return sizes_.at(static_cast<size_t>(index)); }
  void read_to(int64_t index, const PixelSink& sink) const override {
    const ImageSize size = image_size(index);
    const std::span<uint8_t> destination(sink(size).data(), static_cast<size_t>(bytes_in(size, kind_)));
    if (!memory_.copy(offsets_[static_cast<size_t>(index)], destination))
      throw Error(ErrorCode::io, std::string("cannot read ") + kName);
  }
  bool in_memory() const override { return in_memory_; }
  SampleKind kind() const override { return kind_; }
  bool labels_time_steps() const override { return labels_time_steps_; }
  std::span<const int64_t> time_step_labels(int64_t index) const override {
    return steps_.at(static_cast<size_t>(index));
  }
  bool continues(int64_t index) const override { return continues_.at(static_cast<size_t>(index)); }
  int64_t slots() const override { return slots_; }
  uint64_t listing_hash() const override { return listing_; }
  uint64_t content_hash() const override { return content_; }
  std::string identity() const override { return identity_; }

 private:
  MappedFile memory_;
  std::vector<std::string> classes_, sources_;
  std::vector<int64_t> labels_;
  std::vector<std::vector<int64_t>> steps_;
  std::vector<bool> continues_;
  std::string identity_;
  int64_t slots_;
  uint64_t listing_, content_;
  SampleKind kind_;
  bool labels_time_steps_, in_memory_;
  std::vector<ImageSize> sizes_;
  std::vector<int64_t> offsets_;  // offsets in the file
};

}  // namespace

SharedDataset::SharedDataset(const Dataset& dataset) {
  if (dataset.empty()) return;
  const Datastore& store = dataset.store();
  memory_ = make_memory();
  Json description{{"files", description_of_files(store)}};
  const bool by_value = description["files"].is_null();
  if (by_value) description["samples"] = describe_samples(store);
  const std::vector<uint8_t> text = Json::to_cbor(description);
  const Length length = text.size();
  write_at(memory_.get(), 0, {reinterpret_cast<const char*>(&length), sizeof length});
  write_at(memory_.get(), sizeof length, {reinterpret_cast<const char*>(text.data()), text.size()});
  if (!by_value) return;
  auto offset = static_cast<int64_t>(sizeof length + text.size());
  for (int64_t i = 0; i < store.size(); ++i) {
    const std::string bytes = bytes_of(store, i);
    if (static_cast<int64_t>(bytes.size()) != SharedSamples::bytes_in(store.image_size(i), store.kind())) {
      throw Error(ErrorCode::internal,
                  "\"" + store.source(i) + "\" does not have the size that its datastore states");
    }
    write_at(memory_.get(), offset, bytes);
    offset += static_cast<int64_t>(bytes.size());
  }
}

std::string SharedDataset::path() const { return memory_ ? path_of(::getpid(), memory_) : ""; }

std::string SharedDataset::bytes() const { return memory_ ? read_file(path()) : ""; }

Dataset open_shared(const std::string& path) {
  if (path.empty()) return {};
  const OpenFile file(path, O_RDONLY, kName);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw errno_error(errno, "look at", kName);
  Length length = 0;
  std::string text;
  const bool has_length =
      file.read_at(0, {reinterpret_cast<char*>(&length), sizeof length}) == sizeof length &&
      length <= static_cast<Length>(status.st_size);
  if (has_length) text.resize(length);
  const Json description = has_length && file.read_at(sizeof length, text) == text.size()
                               ? Json::from_cbor(text, /*strict=*/true, /*allow_exceptions=*/false)
                               : Json();
  if (!description.is_object()) throw Error(ErrorCode::corrupt_data, std::string(kName) + " cannot be read");
  if (!description.at("files").is_null()) return open_files(description["files"]);
  return Dataset(std::make_shared<SharedSamples>(
      file, status.st_size, static_cast<int64_t>(sizeof length + length), description.at("samples")));
}

Dataset open_shared_bytes(std::string_view bytes) {
  if (bytes.empty()) return {};
  const Descriptor memory = make_memory();
  write_at(memory.get(), 0, bytes);
  return open_shared(path_of(::getpid(), memory));
}

}  // namespace lockstep::data
