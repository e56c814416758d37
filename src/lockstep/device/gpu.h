// The seam to the CUDA plug-in: a library that is opened if there is a driver, so that one program runs on
// all machines. Nothing below the seam is linked; everything above it works without a toolkit and a driver.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/device/dropout_rule.h"
#include "lockstep/device/gpu_link.h"
#include "lockstep/device/inventory.h"
#include "lockstep/device/jpeg_decoder.h"
#include "lockstep/device/side_stream.h"
#include "lockstep/device/step_graph.h"
#include "lockstep/device/update_rule.h"

namespace lockstep::device {

/// A GPU's own arithmetic, on flat buffers of float or double where nothing else is said, on the calling
/// thread's current stream. The bits are the same in every run and, for one element or one block, in the
/// order of operations of the CPU kernels.
class GpuKernels {
 public:
  virtual ~GpuKernels() = default;

  /// One optimizer step for all elements. `first` and `second` are undefined if the rule has no such state.
  virtual void update(const UpdateRule& rule, const at::Tensor& gradient, const at::Tensor& weight,
                      const at::Tensor& first, const at::Tensor& second) const = 0;

  /// The sum of squares of each `block` elements, double, on the same device; the last block may be shorter.
  virtual at::Tensor sums_of_squares(const at::Tensor& values, int64_t block) const = 0;

  /// Dropout: `to` has the layout of `from`, any floating-point type; seeds: int64, one for each sample,
  /// which are one after the other in memory.
  virtual void drop(const at::Tensor& from, const at::Tensor& to, const at::Tensor& seeds,
                    const Kept& kept) const = 0;
};

/// Memory of one GPU in bytes: of the device, and of this process's tensors.
struct GpuMemory {
  int64_t total = 0;
  int64_t free = 0;       ///< by the driver's count, so it includes the use of other processes
  int64_t used = 0;       ///< by tensors now
  int64_t most_used = 0;  ///< by tensors at any time
  int64_t most_held = 0;  ///< by the allocator, which keeps memory that tensors released
};

/// What the plug-in offers. One object, for the life of the process; any thread.
class GpuLibrary {
 public:
  virtual ~GpuLibrary() = default;

  /// The GPUs that the driver shows; empty if it shows none. Throws std::exception with the driver's words if
  /// it cannot be used.
  virtual std::vector<Gpu> list() const = 0;

  /// The device of this GPU's tensors.
  virtual at::Device device(int64_t index) const = 0;

  /// Identifies the hardware on this machine: the PCI address.
  virtual std::string address(int64_t index) const = 0;

  /// Everything besides the program that decides the bits: GPU, capability, versions of CUDA and cuDNN, in
  /// one line.
  virtual std::string fingerprint(int64_t index) const = 0;

  /// Restricts the process to kernels that give the same bits each time, in full float32: deterministic
  /// algorithms, no cuDNN benchmarks, no TF32. An operator without such a kernel then throws an error that
  /// names it.
  virtual void make_repeatable() const = 0;

  /// Memory of one GPU now.
  virtual GpuMemory memory(int64_t index) const = 0;

  virtual const GpuKernels& kernels() const = 0;

  /// Of work on one GPU. Throws std::exception.
  virtual std::unique_ptr<StepGraph> make_step_graph(int64_t index) const = 0;

  /// Of one GPU. Throws std::exception.
  virtual std::unique_ptr<SideStream> make_side_stream(int64_t index) const = 0;

  /// nvJPEG on these GPUs, one or more of one kind, in turn. The same object for the same GPUs, for the life
  /// of the process. Throws std::exception if nvJPEG is missing.
  virtual const JpegDecoder& jpeg_decoder(const std::vector<int64_t>& gpus) const = 0;

  /// Ranks with one GPU each: one makes a token, and all connect with it. Blocks until all have come. Throws
  /// std::exception in NCCL's words.
  virtual std::string link_token() const = 0;
  virtual std::unique_ptr<GpuLink> connect(const GpuLinkPlace& place) const = 0;
};

struct GpuState {
  std::vector<Gpu> gpus;
  std::string note;                     ///< why there is no GPU to use; empty if there are GPUs
  std::string hint;                     ///< what to do about it; empty if there are GPUs
  const GpuLibrary* library = nullptr;  ///< null if there is no GPU to use
};

/// Opens the plug-in on the first call. Any thread. LibTorch looks for CUDA only once, so call this before
/// asking LibTorch about CUDA.
const GpuState& inspect_gpus();

/// Opens the plug-in in this file and asks it for the GPUs, as inspect_gpus does if there is a driver. Never
/// throws for a plug-in that cannot be used: the note gives the reason.
GpuState open_gpu_library(const std::filesystem::path& file);

/// The plug-in, for code that already runs on a GPU. Throws device if there is none.
const GpuLibrary& gpu_library();

/// The name of the function `const GpuLibrary* f()` that the plug-in exports. Its number changes with this
/// header.
inline constexpr const char* kGpuLibrarySymbol = "lockstep_gpu_library_7";

}  // namespace lockstep::device
