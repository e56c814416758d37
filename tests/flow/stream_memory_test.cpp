// A ParallelWrapper's fit over an iterator that gives 2 GB, in a process that may allocate 400 MB more than
// before: mini-batches are streamed, not held.
//
//   usage: stream_memory_test FOLDER      (a new folder, for the runs)
#include <cstdio>
#include <exception>

#include <ATen/ATen.h>

#include "lockstep/device/memory.h"
#include "lockstep/lockstep.h"

using namespace lockstep;

namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;
constexpr int64_t kGiven = 1024 * kMegabyte;  // of each type
constexpr int64_t kMost = 400 * kMegabyte;
constexpr int64_t kMiniBatch = 16, kSide = 256;

// Little work with much memory.
nn::Network network() {
  return nn::read_network(parse_json(R"({"layers": [{"type": "max_pool", "kernel": 16}, {"type": "flatten"},)"
                                     R"( {"type": "linear", "features": "classes"}]})"),
                          "pooled");
}

int64_t bytes_trained(const std::filesystem::path& output, const at::Tensor& images) {
  const int64_t each = static_cast<int64_t>(images.nbytes()), count = kGiven / each;
  train::Options options;
  options.output = output.string();
  options.execution = train::Execution::cpu;
  options.workers = 2;
  options.learning_rate = 1e-3;
  options.lr_schedule = train::ScheduleKind::constant;
  auto wrapper = train::ParallelWrapper::Builder(network(), options)
                     .workers(2)
                     .prefetch_buffer(4)
                     .averaging_frequency(5)
                     .build();
  const at::Tensor labels = at::arange(kMiniBatch).remainder(4);
  int64_t given = 0;
  const train::Result result = wrapper.fit([&] {
    return given++ < count ? std::optional(data::MiniBatch{images, labels}) : std::nullopt;
  });
  return result.steps == (count + 1) / 2 ? each * count : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const std::filesystem::path folder(argv[1]);
    const at::Tensor bytes = at::randint(256, {kMiniBatch, 3, kSide, kSide}, at::kByte);
    const int64_t before = device::peak_memory_bytes();
    const int64_t given = bytes_trained(folder / "bytes", bytes) +
                          bytes_trained(folder / "floats", bytes.narrow(1, 0, 2).to(at::kFloat).div(255));
    const int64_t taken = device::peak_memory_bytes() - before;
    std::printf("%lld MB given, %lld MB taken\n", static_cast<long long>(given / kMegabyte),
                static_cast<long long>(taken / kMegabyte));
    return given > 2 * kGiven - 64 * kMegabyte && taken < kMost ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stream_memory_test: %s\n", error.what());
    return 1;
  }
}
