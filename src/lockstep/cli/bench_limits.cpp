// Measures the limits of this machine, which benchmarks compare their results with: multiply-adds, matrix
// products, memory bandwidth.
#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include "lockstep/base/counted.h"
#include "lockstep/base/json.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/columns.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/measure/alignment.h"
#include "lockstep/cli/measure/multiply_add.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/comm/thread_group.h"
#include "lockstep/device/inventory.h"
#include "lockstep/device/isa.h"
#include "lockstep/device/kernels.h"

namespace lockstep::cli {
namespace {

constexpr int kRounds = 5;
constexpr double kRoundSeconds = 0.04;
constexpr int64_t kMatrixSide = 1024;

/// A unit of work that a thread can repeat. Returns its amount, in the unit of its measurement.
using Piece = std::function<double()>;

/// Makes one thread's work, on that thread, so that its memory is near its core.
using MakePiece = std::function<Piece(Share)>;

struct Limit {
  std::string name;
  std::string unit;
  double one = 0;  ///< per second, one thread
  double all = 0;  ///< per second, one thread per core, total
};

Piece multiply_add_piece(Share) {
  return [] { return measure::multiply_add().run(50); };
}

MakePiece matrix_piece(at::ScalarType type) {
  return [type](Share) -> Piece {
    const at::Tensor left = at::rand({kMatrixSide, kMatrixSide}).to(type),
                     right = at::rand({kMatrixSide, kMatrixSide}).to(type);
    return [=, product = at::empty_like(left)]() mutable {
      at::mm_out(product, left, right);
      return 2.0 * kMatrixSide * kMatrixSide * kMatrixSide;
    };
  };
}

/// `a += b` over `bytes`, divided among the threads.
MakePiece add_piece(int64_t bytes) {
  return [bytes](Share share) -> Piece {
    const int64_t count =
        part_of(bytes / static_cast<int64_t>(sizeof(float)), share.size, share.rank).count();
    const at::Tensor sum = at::ones({count}), other = at::ones({count});
    return [=] {
      device::kernels<float>().add(sum.data_ptr<float>(), sum.data_ptr<float>(), other.data_ptr<float>(),
                                   count);
      return 3.0 * static_cast<double>(count) * sizeof(float);  // two reads, one write
    };
  };
}

/// The sum of all threads' rates, as the median of the rounds.
double rate(int64_t threads, const MakePiece& make_piece) {
  std::vector<std::vector<double>> rates(static_cast<size_t>(threads), std::vector<double>(kRounds));
  measure::Alignment alignment(threads);
  comm::ThreadGroup group(threads);
  group.run([&](Share share) {
    at::set_num_threads(1);
    const Piece piece = make_piece(share);
    piece();
    for (int round = 0; round < kRounds; ++round) {
      alignment.wait();
      double amount = 0, seconds = 0;
      while (seconds < kRoundSeconds) seconds += measure::seconds_of([&] { amount += piece(); });
      rates[static_cast<size_t>(share.rank)][static_cast<size_t>(round)] = amount / seconds;
    }
  });
  std::vector<double> sums(kRounds, 0.0);
  for (const std::vector<double>& of_thread : rates) {
    for (int round = 0; round < kRounds; ++round)
      sums[static_cast<size_t>(round)] += of_thread[static_cast<size_t>(round)];
  }
  return measure::median(sums);
}

struct Measurement {
  std::string name;
  std::string unit;
  MakePiece make_piece;
};

const std::vector<Measurement>& measurements() {
  static const std::vector<Measurement> all{{"multiply_add", "GFLOP/s", multiply_add_piece},
                                            {"sgemm", "GFLOP/s", matrix_piece(at::kFloat)},
                                            {"bf16_gemm", "GFLOP/s", matrix_piece(at::kBFloat16)},
                                            {"add_64_kb", "GB/s", add_piece(64 << 10)},
                                            {"add_4_mb", "GB/s", add_piece(4 << 20)},
                                            {"add_64_mb", "GB/s", add_piece(64 << 20)}};
  return all;
}

std::vector<Limit> find_limits(int64_t cores, const std::string& only) {
  const at::NoGradGuard no_grad;
  const std::vector<std::string> asked = split(only, ',');
  std::vector<Limit> limits;
  for (const auto& [name, unit, make_piece] : measurements()) {
    if (!only.empty() && std::find(asked.begin(), asked.end(), name) == asked.end()) continue;
    limits.push_back({name, unit, rate(1, make_piece) / 1e9, rate(cores, make_piece) / 1e9});
  }
  return limits;
}

std::string limits_text(const std::vector<Limit>& limits, int64_t cores) {
  std::vector<std::vector<std::string>> rows{{"limit", "one core", counted(cores, "core"), "unit"}};
  for (const Limit& limit : limits)
    rows.push_back({limit.name, fixed(limit.one, 1), fixed(limit.all, 1), limit.unit});
  return in_columns(rows, "lrrl");
}

Json limits_json(const std::vector<Limit>& limits, int64_t cores) {
  constexpr std::array<const char*, 3> kUnits{"plain", "avx2", "avx512"};
  Json json{{"cores", cores}, {"vector_unit", kUnits[static_cast<size_t>(device::vector_unit())]}};
  for (const Limit& limit : limits)
    json["limits"][limit.name] = {{"one", limit.one}, {"all", limit.all}, {"unit", limit.unit}};
  return json;
}

}  // namespace

int run_bench_limits(const Call& call, Console& console) {
  const int64_t cores = device::inspect().cores;
  const std::vector<Limit> limits = find_limits(cores, settings_of<LimitChoice>(call).only);
  console.print(settings_of<JsonOutput>(call).json ? limits_json(limits, cores).dump(2) + "\n"
                                                   : limits_text(limits, cores));
  return 0;
}

}  // namespace lockstep::cli
