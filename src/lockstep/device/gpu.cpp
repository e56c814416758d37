#include "lockstep/device/gpu.h"

#include <dlfcn.h>
#include <exception>

#include "lockstep/base/error.h"
#include "lockstep/base/plug_in.h"
#include "lockstep/base/text.h"
#include "lockstep/device/gpu_plug_in.h"

namespace lockstep::device {
namespace {

GpuState none(std::string note, std::string hint) {
  return {.gpus = {}, .note = std::move(note), .hint = std::move(hint), .library = nullptr};
}

GpuState look() {
  if (::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    return none("no NVIDIA driver on this machine", "a GPU needs NVIDIA's driver, version 580 or newer");
  }
  return open_gpu_library(find_plug_in(kGpuPlugIn));
}

}  // namespace

GpuState open_gpu_library(const std::filesystem::path& file) {
  // Never closed: LibTorch's CUDA half registers itself for the life of the process.
  void* plug_in = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plug_in == nullptr) {
    const std::string why = ::dlerror();
    if (why.starts_with(file.string() + ": cannot open shared object file")) {
      return none("the CUDA plug-in " + std::string(kGpuPlugIn) + " is not beside the program",
                  how_to_get_gpu_plug_in());
    }
    return none(
        "the CUDA plug-in cannot be opened: " + first_line(why),
        "LibTorch's CUDA half needs NVIDIA's libraries: scripts/setup --peers gets them (then "
        "scripts/build), or name the folders of the pip packages nvidia-* of torch 2.15 in LD_LIBRARY_PATH");
  }
  const auto get = reinterpret_cast<const GpuLibrary* (*)()>(::dlsym(plug_in, kGpuLibrarySymbol));
  if (get == nullptr)
    return none("the CUDA plug-in \"" + file.string() + "\" is of another version than the program",
                "build or install both together");
  try {
    const GpuLibrary* library = get();
    GpuState state{.gpus = library->list(), .note = {}, .hint = {}, .library = library};
    if (state.gpus.empty())
      return none("the NVIDIA driver shows no GPU", "see nvidia-smi, and the variable CUDA_VISIBLE_DEVICES");
    return state;
  } catch (const std::exception& error) {
    return none("the NVIDIA driver cannot be used: " + first_line(error.what()),
                "CUDA 13 needs NVIDIA's driver, version 580 or newer; see nvidia-smi");
  }
}

const GpuState& inspect_gpus() {
  static const GpuState state = look();
  return state;
}

const GpuLibrary& gpu_library() {
  const GpuState& state = inspect_gpus();
  if (state.library == nullptr)
    throw Error(ErrorCode::device, "there is no GPU to use: " + state.note, state.hint);
  return *state.library;
}

}  // namespace lockstep::device
