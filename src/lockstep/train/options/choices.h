// The values that options with a choice can have, and their names on the command line.
#pragma once

#include <array>

namespace lockstep::train {

enum class Execution { auto_, cpu, gpu, multi_gpu, parallel };
constexpr std::array<const char*, 5> enum_names(Execution) {
  return {"auto", "cpu", "gpu", "multi-gpu", "parallel"};
}

enum class ScaleWithWorkers { none, batch, batch_and_rate };
constexpr std::array<const char*, 3> enum_names(ScaleWithWorkers) {
  return {"none", "batch", "batch-and-rate"};
}

/// How the results of shards become one network: gradients are added in the tree in every step; replicas are
/// averaged every few steps; or gradients are added and travel between ranks in fewer bits (compression.h).
enum class ExchangeKind { tree, average, bf16, fp16, powersgd };
constexpr std::array<const char*, 5> enum_names(ExchangeKind) {
  return {"tree", "average", "bf16", "fp16", "powersgd"};
}

/// What an average of replicas becomes: the new weights, or the gradient of a step (DiLoCo,
/// arXiv:2311.08105).
enum class OuterOptimizer { none, nesterov };
constexpr std::array<const char*, 2> enum_names(OuterOptimizer) { return {"none", "nesterov"}; }

enum class Color { auto_, grey, rgb };
constexpr std::array<const char*, 3> enum_names(Color) { return {"auto", "grey", "rgb"}; }

enum class OptimizerKind { sgdm, adam, adamw, rmsprop };
constexpr std::array<const char*, 4> enum_names(OptimizerKind) {
  return {"sgdm", "adam", "adamw", "rmsprop"};
}

enum class ScheduleKind { constant, piecewise, cosine };
constexpr std::array<const char*, 3> enum_names(ScheduleKind) { return {"constant", "piecewise", "cosine"}; }

/// auto_: single or bf16_mixed, as a short probe finds (planning/precision_probe.h). For inference it means
/// single.
enum class Precision { single, double_, bf16_mixed, fp16_mixed, auto_ };
constexpr std::array<const char*, 5> enum_names(Precision) {
  return {"32-true", "64-true", "bf16-mixed", "fp16-mixed", "auto"};
}

enum class Isa { auto_, avx2, avx512 };
constexpr std::array<const char*, 3> enum_names(Isa) { return {"auto", "avx2", "avx512"}; }

/// auto_: Lockstep's kernels where they are faster; engine: those of LibTorch (oneDNN) everywhere.
enum class Kernels { auto_, engine };
constexpr std::array<const char*, 2> enum_names(Kernels) { return {"auto", "engine"}; }

/// Who chooses the values that were not given: a recipe that suits the data (planning/recipe.h), or the
/// defaults of the options, which are the same for all data.
enum class Recipe { auto_, plain };
constexpr std::array<const char*, 2> enum_names(Recipe) { return {"auto", "plain"}; }

/// How the running statistics of batch norms begin: pytorch: at 0 and 1, from which they move by their
/// momentum; mean: as the mean of the first mini-batches, until that moves more slowly than the momentum.
enum class BatchNormStart { pytorch, mean };
constexpr std::array<const char*, 2> enum_names(BatchNormStart) { return {"pytorch", "mean"}; }

/// balanced: a class counts as much as any other, however few samples it has.
enum class ClassWeights { none, balanced };
constexpr std::array<const char*, 2> enum_names(ClassWeights) { return {"none", "balanced"}; }

/// Whether the last layer of a network keeps the weights of the file, or is replaced by a new one for the
/// classes of the data.
enum class Head { keep, new_ };
constexpr std::array<const char*, 2> enum_names(Head) { return {"keep", "new"}; }

/// The output of frozen first layers: computed once for each image and kept, where that is possible and fits
/// (auto_), or computed in every step.
enum class KeepFeatures { auto_, never, always };
constexpr std::array<const char*, 3> enum_names(KeepFeatures) { return {"auto", "never", "always"}; }

/// When memory runs out in a step: the run fails, or the step is repeated in smaller pieces.
enum class OutOfMemory { error, split };
constexpr std::array<const char*, 2> enum_names(OutOfMemory) { return {"error", "split"}; }

/// Whether decoded images are kept in the GPU's memory: where they fit and nothing changes them on the host
/// (auto_), always, or never.
enum class Resident { auto_, on, off };
constexpr std::array<const char*, 3> enum_names(Resident) { return {"auto", "on", "off"}; }

/// Whether a GPU's work for a shard is recorded and replayed: where that is possible (auto_), always, with
/// the shards of a worker at the same time, or never.
enum class Recording { auto_, on, side_by_side, off };
constexpr std::array<const char*, 4> enum_names(Recording) { return {"auto", "on", "side-by-side", "off"}; }

}  // namespace lockstep::train
