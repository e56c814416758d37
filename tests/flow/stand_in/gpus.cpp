// Stands in for the CUDA plug-in in tests without GPUs: four GPUs whose tensors are on the CPU, so that
// everything except CUDA itself runs as on a machine with four GPUs. Between processes their messages are
// files in $TMPDIR; the number of bytes that a rank sent is added to the file $STAND_IN_LINK_LOG if that is
// set. JPEGs are decoded by libjpeg's quick methods at full size, which no --decode on the CPU does; if
// $STAND_IN_WITHOUT_NVJPEG is set they are not decoded. If $STAND_IN_FREE_BYTES is set, so much of
// each GPU is free.
#include <cstring>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include <turbojpeg.h>

#include "lockstep/device/gpu.h"

namespace lockstep {
namespace {

class FileLink : public device::GpuLink {
 public:
  explicit FileLink(const device::GpuLinkPlace& place) : folder_(place.token), rank_(place.share.rank) {}
  ~FileLink() override {
    const char* log = std::getenv("STAND_IN_LINK_LOG");
    if (log != nullptr)
      std::ofstream(log, std::ios::app) << rank_ << " " << sent_bytes_ << "\n" << std::flush;
  }
  FileLink(const FileLink&) = delete;
  FileLink& operator=(const FileLink&) = delete;
  at::Device device() const override { return at::kCPU; }
  std::string way() const override { return "files"; }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                const Check& check) override {
    for (const Message& message : sends) {
      const std::filesystem::path file = next(rank_, message.peer);
      std::ofstream(file.string() + ".part", std::ios::binary)
          .write(static_cast<const char*>(message.values.const_data_ptr()),
                 static_cast<std::streamsize>(message.values.nbytes()));
      std::filesystem::rename(file.string() + ".part", file);
      sent_bytes_ += message.values.nbytes();
    }
    for (const Message& message : receives) {
      const std::filesystem::path file = next(message.peer, rank_);
      while (!std::filesystem::exists(file)) {
        check();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (std::filesystem::file_size(file) != message.values.nbytes())
        throw std::runtime_error("a message of another size");
      std::ifstream(file, std::ios::binary)
          .read(static_cast<char*>(message.values.data_ptr()),
                static_cast<std::streamsize>(message.values.nbytes()));
      std::filesystem::remove(file);
    }
  }

 private:
  std::filesystem::path next(int64_t from, int64_t to) {
    const std::string route = std::to_string(from) + "-" + std::to_string(to);
    return folder_ / (route + "-" + std::to_string(count_[route]++));
  }

  const std::filesystem::path folder_;
  const int64_t rank_;
  std::map<std::string, int64_t> count_;
  size_t sent_bytes_ = 0;
};

class NoKernels : public device::GpuKernels {
 public:
  void update(const device::UpdateRule&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
              const at::Tensor&) const override {
    throw std::logic_error("tensors on a CPU are updated by the CPU's kernels");
  }
  at::Tensor sums_of_squares(const at::Tensor&, int64_t) const override {
    throw std::logic_error("tensors on a CPU are summed by the CPU's kernels");
  }
  void drop(const at::Tensor&, const at::Tensor&, const at::Tensor&, const device::Kept&) const override {
    throw std::logic_error("tensors on a CPU are dropped by the CPU's kernels");
  }
};

class QuickDecoder : public device::JpegDecoder {
 public:
  std::string fingerprint() const override { return "stand-in for nvJPEG"; }

  bool decode(std::string_view file, const device::JpegShape& shape, const Take& take) const override {
    const std::unique_ptr<void, int (*)(tjhandle)> handle(tjInitDecompress(), tjDestroy);
    std::vector<uint8_t> pixels(static_cast<size_t>(shape.bytes()));
    const int status =
        tjDecompress2(handle.get(), reinterpret_cast<const unsigned char*>(file.data()), file.size(),
                      pixels.data(), static_cast<int>(shape.width), 0, static_cast<int>(shape.height),
                      shape.channels == 1 ? TJPF_GRAY : TJPF_RGB, TJFLAG_FASTDCT | TJFLAG_FASTUPSAMPLE);
    if (status != 0) return false;
    take(pixels);
    return true;
  }
};

// Of four, as many as CUDA_VISIBLE_DEVICES names.
int64_t visible() {
  const char* names = std::getenv("CUDA_VISIBLE_DEVICES");
  return names == nullptr || *names == '\0' ? 4 : 1 + std::count(names, names + std::strlen(names), ',');
}

class StandIn : public device::GpuLibrary {
 public:
  std::vector<device::Gpu> list() const override {
    std::vector<device::Gpu> gpus;
    for (int64_t index = 0; index < visible(); ++index)
      gpus.push_back({index, "stand-in", int64_t{1} << 30, "0.0"});
    return gpus;
  }
  at::Device device(int64_t) const override { return at::kCPU; }
  std::string address(int64_t index) const override { return "stand-in " + std::to_string(index); }
  std::string fingerprint(int64_t) const override { return "stand-in"; }
  void make_repeatable() const override {}
  device::GpuMemory memory(int64_t) const override {
    const char* free = std::getenv("STAND_IN_FREE_BYTES");
    return {.total = int64_t{1} << 30, .free = free == nullptr ? int64_t{1} << 30 : std::atoll(free)};
  }
  const device::GpuKernels& kernels() const override { return kernels_; }
  std::unique_ptr<device::StepGraph> make_step_graph(int64_t) const override {
    return std::make_unique<device::RepeatedWork>();
  }
  std::unique_ptr<device::SideStream> make_side_stream(int64_t) const override {
    return std::make_unique<device::SideStream>();
  }
  const device::JpegDecoder& jpeg_decoder(const std::vector<int64_t>&) const override {
    if (std::getenv("STAND_IN_WITHOUT_NVJPEG") != nullptr) throw std::runtime_error("there is no nvJPEG");
    return decoder_;
  }
  std::string link_token() const override {
    std::string folder = (std::filesystem::temp_directory_path() / "stand-in-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error("no folder for messages");
    return folder;
  }
  std::unique_ptr<device::GpuLink> connect(const device::GpuLinkPlace& place) const override {
    return std::make_unique<FileLink>(place);
  }

 private:
  NoKernels kernels_;
  QuickDecoder decoder_;
};

}  // namespace
}  // namespace lockstep

extern "C" __attribute__((visibility("default"))) const lockstep::device::GpuLibrary*
lockstep_gpu_library_7() {
  static const lockstep::StandIn library;
  return &library;
}
