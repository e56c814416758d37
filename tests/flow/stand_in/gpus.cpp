// Stands in for the CUDA plug-in where a test has no GPUs: four GPUs whose tensors lie on the CPU, so that all that is not CUDA itself runs as on a machine with four.
#include <stdexcept>

#include "lockstep/device/gpu.h"

namespace lockstep {
namespace {

class NoKernels : public device::GpuKernels {
 public:
  void update(const device::UpdateRule&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&) const override { throw std::logic_error("tensors on a CPU are updated by the CPU's kernels"); }
  at::Tensor sums_of_squares(const at::Tensor&, int64_t) const override { throw std::logic_error("tensors on a CPU are summed by the CPU's kernels"); }
};

class StandIn : public device::GpuLibrary {
 public:
  std::vector<device::Gpu> list() const override {
    std::vector<device::Gpu> gpus;
    for (int64_t index = 0; index < 4; ++index) gpus.push_back({index, "stand-in", int64_t{1} << 30, "0.0"});
    return gpus;
  }
  at::Device device(int64_t) const override { return at::kCPU; }
  std::string fingerprint(int64_t) const override { return "stand-in"; }
  void make_repeatable() const override {}
  device::GpuMemory memory(int64_t) const override { return {.total = int64_t{1} << 30, .free = int64_t{1} << 30}; }
  const device::GpuKernels& kernels() const override { return kernels_; }
  std::string link_token() const override { return "stand-in"; }
  std::unique_ptr<device::GpuLink> connect(const device::GpuLinkPlace&) const override { throw std::runtime_error("the stand-in links no processes"); }

 private:
  NoKernels kernels_;
};

}  // namespace
}  // namespace lockstep

extern "C" __attribute__((visibility("default"))) const lockstep::device::GpuLibrary* lockstep_gpu_library_3() {
  static const lockstep::StandIn library;
  return &library;
}
