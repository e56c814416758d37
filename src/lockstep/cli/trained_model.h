// The trained network that `evaluate` and `predict` use.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/cli/console.h"
#include "lockstep/cli/verb.h"
#include "lockstep/data/sources.h"
#include "lockstep/train/inference/predict.h"

namespace lockstep::cli {

/// The model of a run folder, or the weights file in one; or with --weights FILE a network by its name or
/// file. The rank that leads says on standard error what speaks against its weights.
train::Model open_model(const Call& call, Console& console, const comm::Communicator* group = nullptr);

/// The model as predict and evaluate compute scores with it: without --exact, batch norms are folded.
train::Model model_for_scores(const Call& call, train::Model model, const train::Options& options);

/// The options with which predict and evaluate compute scores: with --exact, mini-batches and shards are
/// those of the model's run unless they are given. The size of a shard decides which kernels some layers
/// have.
train::Options options_for_scores(const Call& call, const train::Model& model, train::Options options);

/// The model with its weights in memory, which the other one gives up: they are freed by who computes with
/// them.
train::Model take_weights(train::Model& model);

/// The class names in a file, one per line. Throws not_found, io; invalid_option for a name that is there
/// twice.
std::vector<std::string> read_classes(const std::string& path);

/// Reads the weights. Warns on standard error about numbers that are not finite, and about weights that
/// differ from those that the run saved.
void examine_weights(train::Model& model, Console& console);

/// The hash that the run has recorded for the weights of its end, which other commands show, too; empty if
/// the file does not have these.
std::string recorded_hash(const std::filesystem::path& file, const nn::NamedTensors& tensors);

/// How labels are read: as --labels says, otherwise as the model's run did.
data::Labels labels_of(const Call& call, const train::Model& model);

/// The leading rank says on standard error which file of a folder is used, if only one is (Source::file).
void note_part(const data::Source& source, Console& console, const comm::Communicator* group);

/// The samples of `source`. With --on-bad-sample skip, unreadable samples are skipped, and the leading rank
/// reports them on standard error.
data::Dataset readable_samples(const data::Source& source, const train::Model& model,
                               const train::Options& options, Console& console,
                               const comm::Communicator* group = nullptr);

/// Predictions in the dataset's order, computed over `group` if there is one (over_ranks.h); empty on ranks
/// that do not lead. Without a group it shows its progress.
std::vector<train::Prediction> predict(const Call& call, Console& console, train::Model model,
                                       const data::Dataset& dataset, const train::Options& options,
                                       comm::Communicator* group);

}  // namespace lockstep::cli
