#include "lockstep/io/object_store.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include <dlfcn.h>

#include "lockstep/base/error.h"
#include "lockstep/base/plug_in.h"
#include "lockstep/base/stop_scope.h"
#include "lockstep/io/address.h"
#include "lockstep/io/internal/stores.h"

namespace lockstep::io {
namespace {

constexpr const char* kFileName = "liblockstep_object_store.so";

std::string how_to_get() {
  return package_kind().empty()
             ? "run scripts/setup, which installs Apache Arrow, then build again"
             : "install a package that has it: scripts/package makes one where scripts/setup "
               "has installed Apache Arrow";
}

CloudState look() {
  const std::filesystem::path file = find_plug_in(kFileName);
  // Never closed: its objects live as long as the process.
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string why = ::dlerror();
    if (why.starts_with(file.string() + ": cannot open shared object file")) {
      return {
          nullptr,
          "cannot find the library for object stores, " + std::string(kFileName) + ", next to the program",
          how_to_get()};
    }
    return {nullptr, "cannot open the library for object stores: " + why, how_to_get()};
  }
  const auto get = reinterpret_cast<const CloudLibrary* (*)()>(::dlsym(library, kCloudLibrarySymbol));
  if (get == nullptr)
    return {nullptr,
            "the library for object stores \"" + file.string() + "\" does not have the program's version",
            "build or install both together"};
  return {get(), "", ""};
}

const CloudLibrary& cloud_library(const std::string& where) {
  const CloudState& state = inspect_cloud();
  if (state.library == nullptr)
    throw Error(ErrorCode::invalid_option, "cannot open \"" + public_name(where) + "\": " + state.note,
                state.hint);
  return *state.library;
}

class PatientStore : public ByteStore {
 public:
  PatientStore(std::shared_ptr<const ByteStore> store, int64_t seconds)
      : store_(std::move(store)), seconds_(seconds) {}

  const std::string& name() const override { return store_->name(); }
  std::string kind() const override { return store_->kind(); }
  int64_t parallel_reads() const override { return store_->parallel_reads(); }
  void list(Sizes sizes, const Visit& visit) const override { store_->list(sizes, visit); }
  std::optional<int64_t> size_of(std::string_view path) const override { return store_->size_of(path); }
  std::string read(FileName file, int64_t most_bytes) const override {
    return patiently([&] { return store_->read(file, most_bytes); });
  }
  size_t read_at(FileName file, int64_t offset, std::span<char> destination) const override {
    return patiently([&] { return store_->read_at(file, offset, destination); });
  }

 private:
  using Clock = std::chrono::steady_clock;

  template <class Work>
  auto patiently(Work&& work) const -> decltype(work()) {
    constexpr auto kFirstPause = std::chrono::milliseconds(200);
    constexpr auto kLongestPause = std::chrono::milliseconds(2000);
    Clock::time_point first_failure{};
    for (auto pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
      try {
        return work();
      } catch (Error& error) {
        if (error.code() != ErrorCode::communication) throw;
        if (first_failure == Clock::time_point{}) first_failure = Clock::now();
        const auto waited =
            std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - first_failure).count();
        if (waited >= seconds_) {
          error.add_context("it was retried for " + std::to_string(waited) + " s");
          throw;
        }
        if (!sleep_unless_stopped(pause))
          throw Error(ErrorCode::cancelled,
                      "stopped while waiting for \"" + name() + "\", which did not answer");
      }
    }
  }

  const std::shared_ptr<const ByteStore> store_;
  const int64_t seconds_;
};

}  // namespace

const CloudState& inspect_cloud() {
  static const CloudState state = look();
  return state;
}

std::shared_ptr<const ByteStore> with_patience(std::shared_ptr<const ByteStore> store, int64_t seconds) {
  return std::make_shared<PatientStore>(std::move(store), seconds);
}

std::shared_ptr<const ByteStore> open_cloud(const std::string& where, const StoreOptions&) {
  return with_patience(cloud_library(where).open(where));
}

std::unique_ptr<ByteSink> open_cloud_sink(const std::string& where) {
  return cloud_library(where).open_sink(where);
}

}  // namespace lockstep::io
