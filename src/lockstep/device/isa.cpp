#include "lockstep/device/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string_view>

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
    throw Error(ErrorCode::invalid_option,
                "option --isa cannot be \"" + isa + "\": this processor has no such unit",
                "lockstep doctor lists the vector units");
  }
  ::setenv("ATEN_CPU_CAPABILITY", wide ? "avx512" : "avx2", 1);
  ::setenv("ONEDNN_MAX_CPU_ISA", wide ? "AVX512_CORE_BF16" : "AVX2", 1);
  ::setenv("MKL_ENABLE_INSTRUCTIONS", wide ? "AVX512" : "AVX2", 1);
  ::setenv("MKL_CBWR", wide ? "AVX512" : "AVX2", 1);
  check_isa(isa);
}

void check_isa(const std::string& isa) {
  if (isa == "auto" || lower(at::get_cpu_capability()) == isa) return;
  throw Error(ErrorCode::invalid_option,
              "option --isa came too late: LibTorch already uses " + at::get_cpu_capability(),
              "set it on the command line, or call device::pin_isa first thing in main");
}

VectorUnit vector_unit() {
  static const VectorUnit unit = [] {
    const std::string allowed = lower(at::get_cpu_capability());
    const bool avx512 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512dq");
    if (avx512 && allowed == "avx512") return VectorUnit::avx512;
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return avx2 && (allowed == "avx2" || allowed == "avx512") ? VectorUnit::avx2 : VectorUnit::plain;
  }();
  return unit;
}

bool rounds_to_bfloat16() {
  return vector_unit() == VectorUnit::avx512 && __builtin_cpu_supports("avx512bf16");
}

bool has_matrix_unit() {
  static const bool has = [] {
    constexpr unsigned kBFloat16 = 1U << 22, kTiles = 1U << 24;  // CPUID.(EAX=7,ECX=0):EDX
    constexpr long kRequestState = 0x1023,
                   kTileData = 18;  // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kBFloat16) == 0 || (d & kTiles) == 0)
      return false;
    const char* allowed = std::getenv("ONEDNN_MAX_CPU_ISA");
    const bool free = allowed == nullptr || std::string_view(allowed) == "ALL" ||
                      std::string_view(allowed).find("AMX") != std::string_view::npos;
    // The state of the tiles is saved only for processes that ask for it; a process asks for all its threads.
    return free && rounds_to_bfloat16() && ::syscall(SYS_arch_prctl, kRequestState, kTileData) == 0;
  }();
  return has;
}

std::string arithmetic_fingerprint(const std::vector<int64_t>& gpus) {
  static const std::string build = as_hex(hash_of(at::show_config())).substr(0, 8);
  const auto setting = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string("auto") : std::string(value);
  };
  const Inventory inventory = inspect();
  std::set<std::string> kinds;  // the number of GPUs of one kind changes no bit
  for (const int64_t index : gpus) kinds.insert(gpu_library().fingerprint(index));
  std::string on_gpus;
  for (const std::string& kind : kinds) on_gpus += "; gpu " + kind;
  return "isa " + lower(at::get_cpu_capability()) + "; units " + join(inventory.vector_units, "+") +
         "; onednn " + setting("ONEDNN_MAX_CPU_ISA") + "; mkl " + setting("MKL_CBWR") +
         "; libtorch " TORCH_VERSION "; build " + build +
         "; kernels " LOCKSTEP_KERNELS "; compiler " __VERSION__ + on_gpus;
}

}  // namespace lockstep::device
