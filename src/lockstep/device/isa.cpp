#include "lockstep/device/isa.h"

#include <cstdlib>

#include <ATen/Version.h>
#include <ATen/native/DispatchStub.h>
#include <torch/version.h>

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/device/gpu.h"
#include "lockstep/device/inventory.h"

namespace lockstep::device {

void pin_isa(const std::string& isa) {
  if (isa == "auto") return;
  const bool wide = isa == "avx512";
  if (!(wide ? __builtin_cpu_supports("avx512bw") : __builtin_cpu_supports("avx2"))) {
    throw Error(ErrorCode::invalid_option, "option --isa cannot be \"" + isa + "\": this processor has no such unit", "lockstep doctor lists the vector units");
  }
  ::setenv("ATEN_CPU_CAPABILITY", wide ? "avx512" : "avx2", 1);
  ::setenv("ONEDNN_MAX_CPU_ISA", wide ? "AVX512_CORE_BF16" : "AVX2", 1);
  ::setenv("MKL_ENABLE_INSTRUCTIONS", wide ? "AVX512" : "AVX2", 1);
  ::setenv("MKL_CBWR", wide ? "AVX512" : "AVX2", 1);
  if (lower(at::get_cpu_capability()) != isa) {
    throw Error(ErrorCode::invalid_option, "option --isa came too late: LibTorch already uses " + at::get_cpu_capability(),
                "set it on the command line, or call device::pin_isa first thing in main");
  }
}

VectorUnit vector_unit() {
  static const VectorUnit unit = [] {
    const std::string allowed = lower(at::get_cpu_capability());
    const bool avx512 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (avx512 && allowed == "avx512") return VectorUnit::avx512;
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return avx2 && (allowed == "avx2" || allowed == "avx512") ? VectorUnit::avx2 : VectorUnit::plain;
  }();
  return unit;
}

std::string arithmetic_fingerprint(const std::vector<int64_t>& gpus) {
  const auto setting = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string("auto") : std::string(value);
  };
  const Inventory inventory = inspect();
  std::string on_gpus;
  for (const int64_t index : gpus) on_gpus += "; gpu " + gpu_library().fingerprint(index);
  return "isa " + lower(at::get_cpu_capability()) + "; units " + join(inventory.vector_units, "+") + "; onednn " + setting("ONEDNN_MAX_CPU_ISA") +
         "; mkl " + setting("MKL_CBWR") + "; libtorch " TORCH_VERSION "; build " + as_hex(hash_of(at::show_config())).substr(0, 8) + "; kernels " LOCKSTEP_KERNELS "; compiler " __VERSION__ + on_gpus;
}

}  // namespace lockstep::device
