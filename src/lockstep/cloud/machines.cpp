#include "lockstep/cloud/machines.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::cloud {
namespace {

struct NetworkRow {
  std::string_view type;
  Network network;
};

// "Up to" figures are given as they are.
constexpr std::array kNetworks{
    NetworkRow{"c7i.2xlarge", {12.5, false}},     NetworkRow{"c7i.8xlarge", {12.5, false}},
    NetworkRow{"c7i.24xlarge", {37.5, false}},    NetworkRow{"c7a.8xlarge", {12.5, false}},
    NetworkRow{"g4dn.xlarge", {25, false}},       NetworkRow{"g4dn.12xlarge", {50, true}},
    NetworkRow{"g5.xlarge", {10, false}},         NetworkRow{"g5.12xlarge", {40, true}},
    NetworkRow{"g5.48xlarge", {100, true}},       NetworkRow{"g6.xlarge", {10, false}},
    NetworkRow{"g6.12xlarge", {40, true}},        NetworkRow{"g6.48xlarge", {100, true}},
    NetworkRow{"g6e.12xlarge", {100, true}},      NetworkRow{"g6e.48xlarge", {400, true}},
    NetworkRow{"p3.8xlarge", {10, false}},        NetworkRow{"p3.16xlarge", {25, false}},
    NetworkRow{"p4d.24xlarge", {400, true}},      NetworkRow{"p4de.24xlarge", {400, true}},
    NetworkRow{"p5.48xlarge", {3200, true}},      NetworkRow{"p5en.48xlarge", {3200, true}},
    NetworkRow{"p6-b200.48xlarge", {3200, true}}, NetworkRow{"m5.large", {10, false}},
    NetworkRow{"t3.medium", {5, false}},
};

struct GpuRow {
  std::string_view gpu;
  double tensor_tflops;  // 16 bits, dense
  double memory_gb_per_second;
};

// NVIDIA's data sheets; the A10G's are in AWS's page on g5.
constexpr std::array kGpus{
    GpuRow{"T4", 65, 320},      GpuRow{"V100", 125, 900},  GpuRow{"A10G", 70, 600},
    GpuRow{"L4", 121, 300},     GpuRow{"L40S", 362, 864},  GpuRow{"A100", 312, 1555},
    GpuRow{"H100", 989, 3350},  GpuRow{"H200", 989, 4800}, GpuRow{"A100-80GB", 312, 2039},
    GpuRow{"B200", 2250, 8000},
};

constexpr double kReferenceTflops = 312;
constexpr double kReferenceBandwidth = 1555;

}  // namespace

Network network_of(const std::string& type) {
  for (const NetworkRow& row : kNetworks) {
    if (row.type == type) return row.network;
  }
  return {};
}

double relative_speed(const std::string& gpu) {
  for (const GpuRow& row : kGpus) {
    if (row.gpu == gpu)
      return std::min(row.tensor_tflops / kReferenceTflops, row.memory_gb_per_second / kReferenceBandwidth);
  }
  return 0;
}

int64_t workers_of(const Price& price) {
  if (price.gpus > 0) return price.gpus;
  // A vCPU is a hardware thread; machines of the family c7a have one thread for each core.
  return price.type.starts_with("c7a.") ? price.vcpus : std::max<int64_t>(1, price.vcpus / 2);
}

}  // namespace lockstep::cloud
