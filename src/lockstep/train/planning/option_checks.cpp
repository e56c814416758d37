#include "lockstep/train/planning/option_checks.h"

#include <cmath>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

bool averages(const Options& options) { return options.exchange == ExchangeKind::average; }

void check_precision_of_exchange(const Options& options) {
  if (options.precision != Precision::fp16_mixed) return;
  if (!averages(options) && options.exchange != ExchangeKind::powersgd) return;
  throw Error(ErrorCode::invalid_option,
              "--precision fp16-mixed cannot be combined with --exchange " + field_text(options, "exchange") +
                  ": " +
                  (averages(options) ? "all workers skip the same steps, but replicas train independently"
                                     : "the values that it keeps for the next step must be finite"),
              "use --precision bf16-mixed");
}

void check_exchange(const Options& options) {
  check_precision_of_exchange(options);
  if (averages(options)) {
    if (options.scale_with_workers == ScaleWithWorkers::none) return;
    throw Error(ErrorCode::invalid_option,
                "--scale-with-workers has nothing to scale with --exchange average: each replica has its own "
                "mini-batches",
                "leave it out");
  }
  const Options defaults;
  for (const char* name :
       {"averaging-frequency", "averaging-warmup-steps", "average-updaters", "outer-optimizer",
        "outer-learning-rate", "outer-momentum", "report-score-after-averaging"}) {
    if (field_text(options, name) != field_text(defaults, name)) {
      throw Error(ErrorCode::invalid_option,
                  "--" + std::string(name) + " " + field_text(options, name) +
                      " has no effect with --exchange " + field_text(options, "exchange"),
                  "add --exchange average, or leave it out");
    }
  }
}

void check_sample_order(const Options& options) {
  if (options.sample_order == data::SampleOrder::lockstep) return;
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::invalid_option,
                "--sample-order distributed-sampler cannot be combined with " + why, "leave out one of them");
  };
  if (options.tbptt_length > 0) refuse("--tbptt-length, whose pieces have their own order");
  if (options.scale_with_workers != ScaleWithWorkers::none)
    refuse("--scale-with-workers: give the --mini-batch-size of all workers together");
}

void check_class_weights(const Options& options) {
  if (options.class_weights == ClassWeights::none) return;
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::invalid_option, "--class-weights balanced cannot be combined with " + what,
                "leave out one of them");
  };
  if (averages(options))
    refuse("--exchange average: the replicas' losses are means of their own mini-batches");
  if (data::Augment::parse(options.augment).mixup > 0) refuse("--augment mixup");
}

void check_averaging(const Options& options) {
  if (!averages(options)) return;
  const auto refuse = [](const std::string& what, const std::string& hint) {
    throw Error(ErrorCode::invalid_option, what + " cannot be combined with --exchange average", hint);
  };
  if (options.learning_rate.is_auto())
    refuse("--learning-rate auto, whose test needs one loss for all workers,", "give a number");
  if (options.detect_anomaly)
    refuse("--detect-anomaly", "leave it out; or find the layer with --exchange tree");
}

void check_folds(const Options& options) {
  const int64_t folds = options.validation_folds, fold = options.fold;
  if (folds == 1 || (folds == 0 && fold > 0) || (folds > 0 && fold > folds))
    throw Error(
        ErrorCode::invalid_option,
        "there is no part " + std::to_string(fold) + " of --validation-folds " + std::to_string(folds),
        "--validation-folds K trains K runs, two or more; --fold I is one of them, from 1 to K");
  if (folds > 0 && fold == 0)
    throw Error(ErrorCode::invalid_option,
                "--validation-folds " + std::to_string(folds) + " is several runs, and here one is trained",
                "add --fold I, or use lockstep train, or fit_folds in a program");
  if (folds > 0 && options.validation_count_per_class > 0)
    throw Error(ErrorCode::invalid_option,
                "--validation-folds and --validation-count-per-class both say what is held out",
                "leave out one of them");
}

void check_limit(const Options& options) {
  const double limit = options.limit_batches;
  if (limit >= 1 && limit != std::floor(limit))
    throw Error(ErrorCode::invalid_option,
                "--limit-batches " + field_text(options, "limit-batches") +
                    " is neither a number of mini-batches nor a share below 1",
                "a whole number, or a share such as 0.1");
  if ((limit > 0 || options.fast_dev_run) && options.mini_batch_size.is_auto())
    throw Error(ErrorCode::invalid_option,
                std::string(options.fast_dev_run ? "--fast-dev-run" : "--limit-batches") +
                    " cannot be combined with --mini-batch-size auto",
                "give a number");
}

// Only -1 stands for the default of the optimizer: what else is below 0 is a mistake.
void check_optimizer(const Options& options) {
  for (const auto& [name, value] :
       {std::pair{"momentum", options.momentum}, std::pair{"weight-decay", options.weight_decay}}) {
    if (value >= 0 || value == -1) continue;
    throw Error(ErrorCode::invalid_option,
                std::string("option --") + name + " cannot be " + quote(field_text(options, name)) +
                    ": it must be a number of at least 0, or -1",
                "-1 is the optimizer's default");
  }
}

}  // namespace

void check_combinations(const Options& options) {
  check_optimizer(options);
  check_averaging(options);
  check_folds(options);
  check_limit(options);
  check_class_weights(options);
  check_exchange(options);
  check_sample_order(options);
}

void check_options_of_several_fits(const Options& options) {
  if (options.learning_rate.is_auto())
    throw Error(
        ErrorCode::invalid_option,
        "--learning-rate auto finds a rate for one whole run, not for a training of several calls of fit",
        "give a number");
}

void check_options_of_stream(const Options& options, Color asked, bool gives_floats) {
  const auto refuse = [](const std::string& what, const std::string& hint) {
    throw Error(ErrorCode::invalid_option, what + " cannot be used with the mini-batches of an iterator",
                hint);
  };
  if (!averages(options)) throw Error(ErrorCode::internal, "a stream of mini-batches needs averaging mode");
  if (options.normalize == "mean-std")
    refuse("--normalize mean-std", "it reads all samples before training; give numbers, M,S per channel");
  if (options.image_size != "auto" || !options.resize_to.empty() || asked != Color::auto_)
    refuse("--image-size, --resize-to or --color",
           "let the iterator return images with the network's size and channels");
  if (options.class_weights != ClassWeights::none)
    refuse("--class-weights", "leave it out: the number of samples of each class is not known");
  if (options.limit_batches > 0 || options.fast_dev_run)
    refuse("--limit-batches or --fast-dev-run", "let the iterator return fewer");
  if (options.validation_folds > 0) refuse("--validation-folds", "leave it out");
  if (options.keep_features == KeepFeatures::always) refuse("--keep-features always", "leave it out");
  if (options.resident == Resident::on) refuse("--resident on", "leave it out");
  if (options.sample_order != data::SampleOrder::lockstep)
    refuse("--sample-order", "leave it out; the iterator has its own order");
  if (gives_floats && options.decode == data::Decode::gpu) refuse("--decode gpu", "leave it out");
}

void check_options_of_sequences(const Options& options) {
  if (options.sort_by_length && options.shuffle != data::Shuffle::never)
    throw Error(ErrorCode::invalid_option, "--sort-by-length needs an order that is not shuffled",
                "add --shuffle never");
  if (options.tbptt_length == 0) return;
  if (options.scale_with_workers != ScaleWithWorkers::none) {
    throw Error(ErrorCode::invalid_option,
                "--scale-with-workers cannot be combined with --tbptt-length, whose slots must not depend on "
                "the number of workers",
                "set --mini-batch-size");
  }
  if (averages(options)) {
    throw Error(ErrorCode::invalid_option,
                "--exchange average cannot be combined with --tbptt-length: replicas do not carry recurrent "
                "state from piece to piece",
                "leave out one of them");
  }
  if (options.mini_batch_size.is_auto())
    throw Error(ErrorCode::invalid_option,
                "--mini-batch-size auto cannot be combined with --tbptt-length, where the mini-batch size is "
                "the number of slots",
                "give a number");
}

}  // namespace lockstep::train
