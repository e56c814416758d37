// Lockstep's side of bench/decode, and TurboJPEG alone.
//
//   lockstep_bench_decode FOLDER HEIGHT WIDTH WHAT
//
// WHAT is one of
//   bare, exact, fast            images in memory, one thread
//   batches-exact, batches-fast  from files, two threads
//   cache, cache-later           second and seventh epoch, two threads
//   copy                         as many bytes by read(2) into reused memory, two threads
//
// Prints a line of JSON: images, seconds (processor time for one thread in memory, else wall time).
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <thread>

#include <turbojpeg.h>

#include "lockstep/base/descriptor.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json.h"
#include "lockstep/base/share.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/mini_batch_queue.h"
#include "lockstep/data/sources.h"
#include "lockstep/device/memory.h"

using namespace lockstep;
using namespace lockstep::data;

namespace {

using Clock = std::chrono::steady_clock;

void say(int64_t images, double seconds) {
  std::printf("%s\n", Json{{"images", images}, {"seconds", seconds}}.dump().c_str());
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::vector<std::string> files_of(const Dataset& dataset) {
  std::vector<std::string> files;
  for (int64_t i = 0; i < dataset.size(); ++i) files.push_back(read_file(dataset.store().source(i)));
  return files;
}

void bare(const Dataset& dataset) {
  const std::vector<std::string> files = files_of(dataset);
  const tjhandle handle = tjInitDecompress();
  std::vector<unsigned char> pixels;
  const double start = processor_seconds();
  for (const std::string& file : files) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
    int width = 0, height = 0, subsampling = 0, colours = 0;
    tjDecompressHeader3(handle, bytes, file.size(), &width, &height, &subsampling, &colours);
    if (pixels.size() < static_cast<size_t>(width) * static_cast<size_t>(height) * 3)
      pixels.resize(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
    tjDecompress2(handle, bytes, file.size(), pixels.data(), width, 0, height, TJPF_RGB, 0);
  }
  say(dataset.size(), processor_seconds() - start);
  tjDestroy(handle);
}

// The bytes of image files in memory, so that only decoding is measured.
class InMemory : public Datastore {
 public:
  explicit InMemory(Dataset files) : files_(std::move(files)), bytes_(files_of(files_)) {}
  int64_t size() const override { return files_.size(); }
  const std::vector<std::string>& classes() const override { return files_.classes(); }
  int64_t label(int64_t index) const override { return files_.store().label(index); }
  std::string source(int64_t index) const override { return files_.store().source(index); }
  ImageSize image_size(int64_t index) const override { return files_.store().image_size(index); }
  void read_to(int64_t index, const PixelSink& sink) const override {
    data::decode(source(index), bytes_[static_cast<size_t>(index)], sink);
  }
  uint64_t listing_hash() const override { return files_.store().listing_hash(); }

 private:
  Dataset files_;
  std::vector<std::string> bytes_;
};

void decode_all(const Dataset& dataset, const ImageFormat& format) {
  const ImageSet set(Dataset(std::make_shared<InMemory>(dataset)), format, 0);
  std::vector<uint8_t> image(static_cast<size_t>(set.image_bytes()));
  const double start = processor_seconds();
  for (int64_t i = 0; i < set.size(); ++i) set.read(i, image);
  say(set.size(), processor_seconds() - start);
}

// The last of several epochs.
void batches(const Dataset& dataset, const ImageFormat& format, std::shared_ptr<const RecordFile> cache,
             int64_t epochs) {
  const auto set = std::make_shared<const ImageSet>(dataset, format, 0, std::move(cache));
  auto start = Clock::now();
  MiniBatchQueue queue(set, Share{},
                       {.mini_batch_size = 64, .order = {.seed = 1}, .epochs = epochs, .threads = 2});
  double seconds = 0;
  while (const auto batch = queue.next()) {
    if (!batch->ends_epoch) continue;
    seconds = seconds_since(start);
    start = Clock::now();
  }
  say(dataset.size(), seconds);
}

void from_cache(const Dataset& dataset, const ImageFormat& format, int64_t epochs) {
  const test::TemporaryFolder folder;
  batches(dataset, format,
          open_image_cache(folder.path(), dataset.store(), format, CacheUse::make, int64_t{1} << 40).cache,
          epochs);
}

// A second epoch whose images are only read by read(2).
void copies(const Dataset& dataset, const ImageFormat& format) {
  const test::TemporaryFolder folder;
  const auto bytes = static_cast<size_t>(format.size().bytes());
  const std::filesystem::path path = folder.path() / "images";
  write_file_atomic(path, std::string(bytes * static_cast<size_t>(dataset.size()), 'x'));
  const OpenFile file(path, O_RDONLY);
  constexpr size_t kThreads = 2, kMiniBatch = 64;
  const std::vector<int64_t> order = Order{.seed = 1}.of_epoch(dataset.size(), 1);
  std::vector<std::string> memory(
      kThreads * 2, std::string(kMiniBatch * bytes, ' '));  // as many as a queue has on their way
  const auto start = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (size_t i = thread, done = 0; i < order.size(); i += kThreads, ++done) {
          std::string& batch = memory[thread * 2 + done / kMiniBatch % 2];
          file.read_at(order[i] * static_cast<int64_t>(bytes),
                       std::span(batch).subspan(done % kMiniBatch * bytes, bytes));
        }
      });
    }
  }
  say(dataset.size(), seconds_since(start));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s FOLDER HEIGHT WIDTH WHAT\n", argv[0]);
    return 2;
  }
  device::keep_freed_memory();
  const std::string what = argv[4];
  const Dataset dataset = ImageFolder(argv[1]);
  ImageFormat format{.channels = 3, .height = std::stoll(argv[2]), .width = std::stoll(argv[3])};
  if (what.ends_with("fast")) format.decode = Decode::fast;
  if (what == "bare")
    bare(dataset);
  else if (what == "exact" || what == "fast")
    decode_all(dataset, format);
  else if (what.starts_with("batches"))
    batches(dataset, format, nullptr, 1);
  else if (what == "cache")
    from_cache(dataset, format, 2);
  else if (what == "cache-later")
    from_cache(dataset, format, 7);
  else if (what == "copy")
    copies(dataset, format);
  return 0;
}
