#include <ATen/Context.h>
#include <ATen/Version.h>
#include <archive.h>
#include <dlfcn.h>
#include <jconfig.h>
#include <spng.h>
#include <torch/version.h>
#include <zlib.h>

#include "lockstep/base/json.h"
#include "lockstep/base/plug_in.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/device/gpu_plug_in.h"
#include "lockstep/device/inventory.h"
#include "lockstep/io/object_store.h"

namespace lockstep::cli {
namespace {

struct Library {
  std::string name;
  std::string version;
  std::string purpose;
};

std::string libjpeg_turbo_version() {
  constexpr int kNumber = LIBJPEG_TURBO_VERSION_NUMBER;  // 2.1.5 is 2001005
  return std::to_string(kNumber / 1000000) + "." + std::to_string(kNumber / 1000 % 1000) + "." +
         std::to_string(kNumber % 1000);
}

std::vector<Library> libraries() {
  return {
      {"LibTorch", TORCH_VERSION, "tensors and gradients; CPU kernels " + lower(at::get_cpu_capability())},
      {"oneDNN", at::hasMKLDNN() ? "with LibTorch" : "none", "convolutions on CPUs"},
      {"MKL", at::hasMKL() ? "with LibTorch" : "none", "matrix products on CPUs"},
      {"libspng", spng_version_string(), "PNG"},
      {"libjpeg-turbo", libjpeg_turbo_version(), "JPEG"},
      {"zlib", zlibVersion(), "compressed data"},
      {"libarchive", archive_version_string() + std::string("libarchive ").size(), "tar archives"},
      {"Apache Arrow",
       io::inspect_cloud().library == nullptr
           ? "none"
           : io::inspect_cloud().library->version().substr(std::string("Arrow ").size()),
       "s3://, gs:// and abfss://, loaded when needed"}};
}

// Of a wheel, where pip puts NVIDIA's libraries beside it, or elsewhere on the loader's path.
bool has_nvjpeg() {
  constexpr const char* kName = "libnvjpeg.so.13";
  return find_companion((std::string("../../../nvidia/cu13/lib/") + kName).c_str()) ||
         ::dlopen(kName, RTLD_LAZY | RTLD_LOCAL) != nullptr;
}

std::string package_text() {
  const std::string kind = package_kind();
  return kind.empty() ? "none: built here" : kind;
}

// What is missing, and how to add it.
std::vector<std::string> advice(const device::Inventory& inventory) {
  std::vector<std::string> lines;
  if (!inventory.cores_reason.empty()) {
    lines.push_back(std::to_string(inventory.cores_online - inventory.cores) +
                    " cores are not available to this process: widen the affinity mask (taskset) or the "
                    "container's CPU limit");
  }
  if (inventory.vector_units.empty())
    lines.push_back("the processor has no AVX2, so training is slow: use another machine if you can");
  if (inventory.gpus.empty()) lines.push_back("no GPU, so training runs on the CPU: " + inventory.gpu_hint);
  if (!find_companion(device::kGpuPlugIn))
    lines.push_back("no CUDA plug-in, so this program trains on CPUs only: " +
                    device::how_to_get_gpu_plug_in());
  else if (package_kind() == "wheel" && !has_nvjpeg())
    lines.push_back("no nvJPEG, so --decode gpu is refused: python -m pip install 'lockstep[nvjpeg]'");
  if (io::inspect_cloud().library == nullptr)
    lines.push_back("no s3://, gs:// and abfss://: " + io::inspect_cloud().note + "; " +
                    io::inspect_cloud().hint);
  return lines;
}

std::string inventory_text(const device::Inventory& inventory, int width) {
  std::vector<std::vector<std::string>> rows{
      {"processor", inventory.processor},
      {"cores", std::to_string(inventory.cores) +
                    (inventory.cores_reason.empty()
                         ? ""
                         : " of " + std::to_string(inventory.cores_online) + ": " + inventory.cores_reason)},
      {"vector units",
       inventory.vector_units.empty() ? "none (no AVX2)" : join(inventory.vector_units, ", ")},
      {"memory", as_bytes(inventory.memory_bytes)},
      {"package", package_text()}};
  for (const device::Gpu& gpu : inventory.gpus) {
    rows.push_back({"GPU " + std::to_string(gpu.index),
                    gpu.name + ", " + as_bytes(gpu.memory_bytes) + ", compute capability " + gpu.capability});
  }
  if (inventory.gpus.empty()) rows.push_back({"GPU", "none: " + inventory.gpu_note});
  std::string text = "machine:\n" + in_columns_within(width, rows, "ll");

  rows.clear();
  for (const Library& library : libraries()) rows.push_back({library.name, library.version, library.purpose});
  text += "\nlibraries:\n" + in_columns_within(width, rows, "lll");

  const std::vector<std::string> lines = advice(inventory);
  text += lines.empty() ? "\nnothing is missing\n" : "\nwhat is missing:\n";
  for (const std::string& line : lines) text += "  " + line + "\n";
  return text;
}

Json inventory_json(const device::Inventory& inventory) {
  Json json{{"processor", inventory.processor},       {"cores", inventory.cores},
            {"cores_online", inventory.cores_online}, {"cores_reason", inventory.cores_reason},
            {"vector_units", inventory.vector_units}, {"memory_bytes", inventory.memory_bytes}};
  json["gpus"] = Json::array();
  for (const device::Gpu& gpu : inventory.gpus) {
    json["gpus"].push_back({{"index", gpu.index},
                            {"name", gpu.name},
                            {"memory_bytes", gpu.memory_bytes},
                            {"capability", gpu.capability}});
  }
  json["package"] = package_kind();
  json["gpu_note"] = inventory.gpu_note;
  for (const Library& library : libraries()) json["libraries"][library.name] = library.version;
  json["missing"] = advice(inventory);
  return json;
}

}  // namespace

int run_doctor(const Call& call, Console& console) {
  const device::Inventory inventory = device::inspect();
  console.print(settings_of<JsonOutput>(call).json ? inventory_json(inventory).dump(2) + "\n"
                                                   : inventory_text(inventory, console.table_width()));
  return 0;
}

}  // namespace lockstep::cli
