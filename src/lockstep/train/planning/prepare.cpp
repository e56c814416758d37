#include "lockstep/train/planning/prepare.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <tuple>

#include <torch/nn/module.h>

#include <c10/util/accumulate.h>

#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/text.h"
#include "lockstep/data/mini_batch_stream.h"
#include "lockstep/data/survey.h"
#include "lockstep/device/gpu.h"
#include "lockstep/device/isa.h"
#include "lockstep/data/centre.h"
#include "lockstep/nn/freeze.h"
#include "lockstep/nn/layers.h"
#include "lockstep/nn/state.h"
#include "lockstep/nn/surgery.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/train/planning/data_checks.h"
#include "lockstep/train/cache/feature_files.h"
#include "lockstep/train/planning/fitting_batch.h"
#include "lockstep/train/step/learning.h"
#include "lockstep/train/options/image_size.h"
#include "lockstep/train/options/normalization.h"
#include "lockstep/train/options/number_type.h"
#include "lockstep/train/options/on_worker.h"
#include "lockstep/train/update/optimizer.h"
#include "lockstep/train/cache/image_caches.h"
#include "lockstep/train/options/placement.h"
#include "lockstep/train/planning/plan_lines.h"
#include "lockstep/train/planning/precision_probe.h"
#include "lockstep/train/planning/resolve.h"
#include "lockstep/train/step/shard_runner.h"
#include "lockstep/train/cache/resident_images.h"
#include "lockstep/train/options/run_length.h"
#include "lockstep/train/planning/sequence_data.h"
#include "lockstep/train/planning/split.h"
#include "lockstep/train/step/first_instance.h"

namespace lockstep::train {
namespace {

constexpr int64_t kLeastForAnArchive =
    64 << 20;                        // its list of files is in memory whatever share decoded images may take
constexpr int64_t kSmallImage = 40;  // pixels a side up to which digits_cnn is chosen
constexpr int64_t kSmallestForDigits = 7;  // its convolutions need that much
constexpr int64_t kPrefetch = 4;           // mini-batches read ahead
constexpr int64_t kReplicaPrefetch = 16;   // over all replicas, ParallelWrapper's default

class Preparation {
 public:
  Preparation(const TrainingRequest& request, const Options& options, bool dry, const Plan* earlier)
      : request_(request),
        asked_(options),
        options_(with_gpus(options, request.gpus)),
        dry_(dry),
        earlier_(earlier),
        inventory_(machine_here(options_)) {
    check_values(options);
    if (request_.network.empty() && options.network == "auto") return;
    prepared_.network = request_.network.empty() ? nn::find_network(options.network) : request_.network;
    options_ = with_expected_input(options_, prepared_.network, request.given);
  }

  Prepared make() {
    check_exchange();
    check_sample_order();
    resolve_step();
    open_data();
    if (earlier_ == nullptr) check_kind_of_data(asked_, train_.store().kind());
    choose_format();
    cut_out_parts();
    open_caches();
    if (!dry_ && options_.on_bad_sample == data::OnBadSample::skip && !sequences() && !plan().data.streamed)
      leave_out_bad_samples();
    split();
    if (sequences()) {
      arrange_sequences(train_, validation_, test_, plan(), options_, earlier_);
      whole_ = data::Dataset();  // sequences lie in memory once already, and pieces are no samples of it
    }
    choose_network();
    resolve_amounts();
    place();
    check_step_memory(plan(), options_, prepared_.network,
                      static_cast<double>(request_.ranks_here) / static_cast<double>(ranks().count),
                      inventory_);
    choose_features();
    arrange_images();
    normalize();
    choose_precision();
    open_feature_files();
    describe();
    return std::move(prepared_);
  }

 private:
  Plan& plan() { return prepared_.plan; }
  bool sequences() const { return prepared_.plan.data.format.kind == data::SampleKind::sequence; }
  Ranks ranks() const {
    return request_.comm == nullptr ? Ranks{}
                                    : Ranks{true, request_.comm->size(), request_.comm->way(),
                                            request_.rank_here, request_.gpu_link != nullptr};
  }

  data::Dataset open(const std::string& path, const std::vector<std::string>& classes) {
    data::Source source =
        data::open_source(path, {.labels = options_.labels,
                                 .on_bad_sample = options_.on_bad_sample,
                                 .classes = classes,
                                 .most_memory = std::max(most_bytes(), kLeastForAnArchive)});
    prepared_.skipped.insert(prepared_.skipped.end(), source.skipped.begin(), source.skipped.end());
    if (reasons_.source.empty()) reasons_.source = source.kind;
    return source.dataset;
  }

  // Of --memory-share, for this process.
  int64_t most_bytes() const {
    return static_cast<int64_t>(static_cast<double>(inventory_.memory_bytes) * options_.memory_share /
                                static_cast<double>(request_.ranks_here));
  }

  CacheChoice cache_choice() const { return {options_.cache, options_.cache_size}; }

  bool averages() const { return options_.exchange == ExchangeKind::average; }

  // A sample of a stream is there once, when its turn comes.
  void check_stream() {
    const auto refuse = [](const std::string& what, const std::string& hint) {
      throw Error(ErrorCode::invalid_option, what + " does not go with the mini-batches of an iterator",
                  hint);
    };
    if (!averages()) throw Error(ErrorCode::internal, "a stream of mini-batches is for averaging mode");
    if (options_.normalize == "mean-std")
      refuse("--normalize mean-std", "it looks at all samples first; give the numbers, M,S for each channel");
    if (options_.image_size != "auto" || !options_.resize_to.empty() || options_.color != Color::auto_)
      refuse("--image-size, --resize-to or --color",
             "let the iterator give images as the network takes them");
    if (options_.keep_features == KeepFeatures::always) refuse("--keep-features always", "leave it out");
    if (options_.resident == Resident::on) refuse("--resident on", "leave it out");
    if (options_.sample_order != data::SampleOrder::lockstep)
      refuse("--sample-order", "the iterator has the order");
    if (request_.stream->gives_floats() && options_.decode == data::Decode::gpu)
      refuse("--decode gpu", "leave it out");
  }

  void check_sample_order() const {
    if (options_.sample_order == data::SampleOrder::lockstep) return;
    const auto refuse = [](const std::string& why) {
      throw Error(ErrorCode::invalid_option, "--sample-order distributed-sampler cannot go with " + why,
                  "leave one of them out");
    };
    if (options_.tbptt_length > 0) refuse("--tbptt-length, whose pieces have an order of their own");
    if (options_.scale_with_workers != ScaleWithWorkers::none)
      refuse("--scale-with-workers: name the --mini-batch-size of all workers together");
  }

  void check_exchange() const {
    if (options_.precision == Precision::fp16_mixed &&
        (averages() || options_.exchange == ExchangeKind::powersgd)) {
      throw Error(ErrorCode::invalid_option,
                  "--precision fp16-mixed does not go with --exchange " + field_text(options_, "exchange") +
                      ": " +
                      (averages() ? "a step is skipped for all, and replicas step by themselves"
                                  : "what it keeps for the next step must be finite"),
                  "--precision bf16-mixed goes with it");
    }
    if (averages()) {
      if (options_.scale_with_workers == ScaleWithWorkers::none) return;
      throw Error(ErrorCode::invalid_option,
                  "--scale-with-workers has nothing to scale with --exchange average: each replica has "
                  "mini-batches of its own",
                  "leave it out");
    }
    const Options defaults;
    for (const char* name :
         {"averaging-frequency", "averaging-warmup-steps", "average-updaters", "outer-optimizer",
          "outer-learning-rate", "outer-momentum", "report-score-after-averaging"}) {
      if (field_text(options_, name) != field_text(defaults, name)) {
        throw Error(ErrorCode::invalid_option,
                    "--" + std::string(name) + " " + field_text(options_, name) +
                        " means nothing with --exchange " + field_text(options_, "exchange"),
                    "add --exchange average, or leave it out");
      }
    }
  }

  // What needs neither data nor machine.
  void resolve_step() {
    Plan& plan = this->plan();
    plan.network.weights = options_.weights;
    if (!options_.freeze.empty()) plan.network.freeze = lockstep::split(options_.freeze, ',');
    plan.network.learning_rate_factors = options_.learning_rate_factors;
    plan.data.augment = data::Augment::parse(options_.augment);
    plan.data.least_time_steps = options_.sequence_length;
    plan.data.on_bad_sample = options_.on_bad_sample;
    plan.step.scales_with_workers = options_.scale_with_workers != ScaleWithWorkers::none;
    plan.step.accumulate = options_.accumulate;
    plan.step.out_of_memory = options_.out_of_memory;
    plan.step.precision = options_.precision == Precision::auto_ ? Precision::single : options_.precision;
    plan.step.kernels = options_.kernels;
    plan.step.seed = options_.seed;
    plan.step.shuffle = options_.shuffle;
    plan.exchange = resolve_exchange(options_);
  }

  void open_data() {
    plan().data.streamed = request_.stream != nullptr;
    if (plan().data.streamed) {
      check_stream();
      train_ = request_.stream->outline();
      reasons_.source = "mini-batches of an iterator, each read once";
    } else {
      train_ = request_.dataset.empty() ? open(request_.folder.string(), {}) : request_.dataset;
    }
    const auto& classes = train_.classes();
    if (!request_.validation.empty()) {
      validation_ = request_.validation;
    } else if (!options_.validation.empty()) {
      validation_ = open(options_.validation, classes);
    }
    if (!request_.test.empty()) {
      test_ = request_.test;
    } else if (!options_.test.empty()) {
      test_ = open(options_.test, classes);
    }
    plan().data.classes = classes;
    if (classes.size() < 2)
      throw Error(ErrorCode::invalid_option, "the training data have " + std::to_string(classes.size()) +
                                                 " class; a classifier needs two or more");
  }

  void choose_format() {
    if (train_.store().kind() == data::SampleKind::sequence) {
      plan().data.format = sequence_format(train_, options_);
      return;
    }
    if (plan().data.streamed) {
      const data::ImageSize size = train_.store().image_size(0);
      plan().data.format = {size.channels, size.height, size.width};
      reasons_.image_size = reasons_.color = "as the iterator gives them";
      return;
    }
    const data::SizeSurvey survey = data::survey_sizes(train_, inventory_.cores);
    const bool colour = options_.color == Color::rgb || (options_.color == Color::auto_ && survey.any_colour);
    data::ImageFormat& format = plan().data.format;
    format = data::default_format(survey);
    format.channels = colour ? 3 : 1;
    format.resize = options_.resize;
    format.decode = options_.decode;
    if (format.decode == data::Decode::gpu)
      format.jpeg_decoder = open_jpeg_decoder(
          resolve_placement(options_, std::numeric_limits<int64_t>::max(), inventory_, ranks()));
    const std::string looked =
        survey.looked_at_all ? "all images" : "the " + with_commas(survey.looked_at) + " images looked at";
    if (options_.image_size != "auto") {
      std::tie(format.height, format.width) = parse_size("image-size", options_.image_size);
      reasons_.image_size = "asked for; other sizes: " + field_text(options_, "resize");
    } else if (survey.one_size) {
      reasons_.image_size = "the size of " + looked;
      constexpr int64_t kSide = data::kPhotographSide;
      const int64_t times = format.height * format.width / (kSide * kSide);
      if (times > 1)
        reasons_.image_size += "; " + std::to_string(times) + " times the work of --image-size " +
                               std::to_string(kSide) + "x" + std::to_string(kSide);
    } else {
      reasons_.image_size =
          "mixed sizes among " + looked + ", so they are resized (" + field_text(options_, "resize") + ")";
    }
    reasons_.color = options_.color != Color::auto_ ? "asked for"
                     : colour                       ? "there are colour images"
                                                    : "no colour image among " + looked;
  }

  // Other images than those of --image-size: a part of what --resize-to makes of them.
  void cut_out_parts() {
    if (options_.resize_to.empty()) {
      if (!plan().data.augment.random_crop) return;
      throw Error(
          ErrorCode::invalid_option,
          "--augment random-crop takes a part of larger images, and there is no --resize-to that makes them "
          "larger",
          "for instance --resize-to 256x256 --image-size 224x224; shift is the crop out of padded images");
    }
    const data::ImageFormat& format = plan().data.format;
    const auto [height, width] = parse_size("resize-to", options_.resize_to);
    if (options_.image_size == "auto")
      throw Error(ErrorCode::invalid_option, "--resize-to needs --image-size, the size that is cut out");
    plan().data.resize_to = {height, width};
    data::check_part(format, format.sized(height, width));
    if (!queue_cuts()) train_ = data::cut_out_centre(train_, format, plan().data.resize_to);
    for (data::Dataset* dataset : {&validation_, &test_})
      *dataset = data::cut_out_centre(*dataset, format, plan().data.resize_to);
    reasons_.image_size =
        (queue_cuts() ? "random parts of images fitted to " : "the centre of images fitted to ") +
        options_.resize_to + " (" + field_text(options_, "resize") + ")";
    if (queue_cuts()) reasons_.image_size += "; for validation and test the centre";
  }

  bool queue_cuts() { return !queue_cut(plan().data).empty(); }

  // What the queue cuts from is kept as it is before.
  data::ImageFormat train_format() {
    const data::ImageFormat& format = plan().data.format;
    return queue_cuts() ? format.sized(plan().data.resize_to[0], plan().data.resize_to[1]) : format;
  }

  void open_caches() {
    const auto use = dry_ ? data::CacheUse::read : data::CacheUse::make;
    caches_[0] = open_cache(train_, request_.dataset.empty() ? request_.folder.string() : "", train_format(),
                            cache_choice(), use);
    caches_[1] = open_cache(validation_, options_.validation, plan().data.format, cache_choice(), use);
    caches_[2] = open_cache(test_, options_.test, plan().data.format, cache_choice(), use);
  }

  void leave_out_bad_samples() {
    size_t place = 0;
    for (data::Dataset* dataset : {&train_, &validation_, &test_}) {
      const auto& cache = caches_[place++].cache;
      if (dataset->empty()) continue;
      auto [good, bad] = data::without_bad_samples(
          *dataset, dataset == &train_ ? train_format() : plan().data.format, inventory_.cores, cache);
      check_classes_left(*dataset, good, bad);
      *dataset = good;
      prepared_.skipped.insert(prepared_.skipped.end(), bad.begin(), bad.end());
    }
  }

  void split() {
    plan().data.listing_hash = as_hex(train_.store().listing_hash());
    plan().data.held_out_listing_hash = as_hex(0);
    const int64_t of_each = options_.validation_count_per_class;
    if (!validation_.empty()) {
      if (of_each > 0)
        throw Error(ErrorCode::invalid_option,
                    "--validation-count-per-class splits the training data, and there are validation data of "
                    "their own",
                    "leave out one of them");
      plan().data.held_out_listing_hash = as_hex(validation_.store().listing_hash());
      reasons_.validation = options_.validation.empty() ? "given" : "from " + options_.validation;
    } else if (holds_out(options_)) {
      whole_ = train_;
      std::tie(train_, validation_) = split_off_held_out(train_, options_);
      if (queue_cuts())
        validation_ = data::cut_out_centre(validation_, plan().data.format, plan().data.resize_to);
      reasons_.validation = (of_each > 0 ? with_commas(of_each) : shortest(options_.validation_split)) +
                            " of each label" +
                            (validation_.empty() ? ": no label has images enough for one" : "");
    } else {
      reasons_.validation = "--validation-split 0";
    }
    plan().data.train_count = plan().data.streamed ? 0 : train_.size();
    plan().data.validation_count = validation_.size();
    plan().data.test_count = test_.size();
  }

  std::string network_name() {
    const data::ImageFormat& format = plan().data.format;
    if (sequences()) {
      reasons_.network = "sequences";
      return "lstm_classifier";
    }
    const int64_t longer = std::max(format.height, format.width);
    if (std::min(format.height, format.width) < kSmallestForDigits) {
      reasons_.network = "images of under " + std::to_string(kSmallestForDigits) + " pixels a side";
      return "mlp";
    }
    if (longer <= kSmallImage && format.channels == 1) {
      reasons_.network = "small grey images";
      return "digits_cnn";
    }
    reasons_.network = format.channels == 1
                           ? "grey images of more than " + std::to_string(kSmallImage) + " pixels"
                           : "colour images";
    return "resnet18";
  }

  void choose_network() {
    const data::ImageFormat& format = plan().data.format;
    plan().network.input = {format.channels, format.height, format.width,
                            static_cast<int64_t>(plan().data.classes.size())};
    if (sequences()) plan().network.input = sequence_input(train_, format);
    reasons_.network = request_.network.empty() ? "asked for" : "given";
    if (prepared_.network.empty()) prepared_.network = nn::find_network(network_name());
    put_on_new_head();
    plan().network.name = prepared_.network.name();
    prepared_.prototype = first_instance(prepared_.network, plan().network, plan().step.seed);
    reasons_.channels_last = prepared_.prototype.channels_last;
    if (plan().step.tbptt_length > 0 && prepared_.prototype.hidden_state.empty()) {
      throw Error(
          ErrorCode::invalid_option,
          "network \"" + plan().network.name + "\" has no recurrent state that --tbptt-length could carry on",
          "leave it out, or use lstm or gru layers");
    }
    for (const auto& parameter : prepared_.prototype.module->parameters()) {
      plan().network.parameter_count += parameter.numel();
      if (parameter.requires_grad()) plan().network.learned_count += parameter.numel();
    }
    learning_rate_factors(learnables_of(prepared_.prototype), plan().network);  // throws what is wrong
    if (!sequences())
      plan().network.frozen_layers = static_cast<int64_t>(nn::frozen_layers(prepared_.prototype));
  }

  void put_on_new_head() {
    if (options_.head == Head::keep) {
      if (options_.drop_layers > 0)
        throw Error(ErrorCode::invalid_option, "--drop-layers leaves the network without a last layer",
                    "add --head new");
      return;
    }
    if (options_.weights.empty()) {
      const std::string where = nn::where_weights_are(prepared_.network.name());
      throw Error(ErrorCode::invalid_option,
                  "--head new keeps all layers but the last as they were trained, and there are no --weights",
                  "--weights FILE, safetensors or saved by PyTorch" + (where.empty() ? "" : "; " + where));
    }
    nn::Surgery surgery = nn::with_new_head(prepared_.network, plan().network.input, options_.drop_layers);
    prepared_.network = std::move(surgery.network);
    plan().network.fresh_layers = std::move(surgery.fresh);
    plan().network.dropped_layers = std::move(surgery.dropped);
  }

  size_t frozen_layers() const { return static_cast<size_t>(prepared_.plan.network.frozen_layers); }

  // Of one image, as it is kept.
  int64_t feature_bytes() const {
    const std::vector<nn::LayerRow> rows =
        nn::inspect_network(prepared_.network, prepared_.plan.network.input).rows;
    const Precision precision = prepared_.plan.step.precision;
    return c10::multiply_integers(rows[frozen_layers() - 1].shape) *
           (is_mixed(precision) ? mixed_bytes() : number_bytes(precision));
  }

  // Autocast leaves some layers' output in 32 bits.
  int64_t mixed_bytes() const {
    const nn::NetworkInput& input = prepared_.plan.network.input;
    const torch::NoGradGuard no_grad;
    const AutocastScope autocast(Precision::bf16_mixed, c10::DeviceType::CPU, WeightCasts::renew);
    return static_cast<int64_t>(
        prepared_.prototype
            .forward_part(at::zeros({1, input.channels, input.height, input.width}), 0, frozen_layers())
            .element_size());
  }

  // Features are the same in every epoch when the images are.
  void choose_features() {
    Plan& plan = this->plan();
    if (plan.network.frozen_layers == 0) {
      if (options_.keep_features == KeepFeatures::always)
        throw Error(ErrorCode::invalid_option,
                    "--keep-features always has nothing to keep: no first layers of the network are frozen",
                    "freeze them, e.g. --freeze 'features.*'");
      return;
    }
    if (plan.data.streamed) {
      reasons_.features = "an iterator gives each image once";
      return;
    }
    const std::string layer = prepared_.prototype.layers[frozen_layers() - 1].name;
    const int64_t copies = request_.gpu_link == nullptr ? 1 : ranks().count;  // a rank keeps its own
    const int64_t bytes = (plan.data.train_count + plan.data.validation_count) * feature_bytes();
    const bool fits = copies * bytes <= most_bytes();
    const std::string of = "what \"" + layer + "\" gives takes " + as_bytes(copies * bytes);
    const std::string obstacle = fits ? "" : feature_file_obstacle(train_, bytes, cache_choice());
    const std::string where = fits               ? ", and no augmentation changes the images"
                              : obstacle.empty() ? ", more than --memory-share allows, so it lies on disk"
                                                 : ", more than --memory-share allows; on disk: " + obstacle;
    if (options_.keep_features == KeepFeatures::never) {
      reasons_.features = "--keep-features never";
    } else if (options_.augment != "none") {
      reasons_.features = "--augment changes the images in every epoch";
      if (options_.keep_features == KeepFeatures::always)
        throw Error(ErrorCode::invalid_option, "--keep-features always cannot be kept: " + reasons_.features,
                    "leave out one of them");
    } else {
      const bool always = options_.keep_features == KeepFeatures::always, began = earlier_ != nullptr;
      plan.network.keep_features =
          always || (began ? earlier_->network.keep_features : fits || obstacle.empty());
      plan.network.features_on_disk = plan.network.keep_features && !fits && obstacle.empty();
      reasons_.features = (always  ? "asked for; "
                           : began ? "as the run began; "
                                   : "") +
                          of + (always && fits ? "" : where);
    }
  }

  // Files for what is kept; beside memory they serve later runs.
  void open_feature_files() {
    Plan& plan = this->plan();
    if (!plan.network.keep_features || dry_) return;
    const int64_t record_bytes = feature_bytes();
    const uint64_t frozen =
        hash_of_frozen(nn::state_of(*prepared_.prototype.module), prepared_.prototype, frozen_layers());
    std::string refusal;
    for (const auto& [images, storage] : {std::pair{prepared_.train, &prepared_.train_features},
                                          std::pair{prepared_.validation, &prepared_.validation_features}}) {
      if (images == nullptr) continue;
      OpenedFeatures opened{
          .refusal = feature_file_obstacle(images->dataset(), images->size() * record_bytes, cache_choice())};
      if (opened.refusal.empty())
        opened = open_features(features_key(*images, prepared_.network, plan, frozen, record_bytes),
                               cache_choice());
      *storage = {
          .in_memory = !plan.network.features_on_disk, .file = std::move(opened.file), .frozen = frozen};
      if (storage->file == nullptr) refusal = opened.refusal;
    }
    if (plan.network.features_on_disk && !refusal.empty()) do_without_files(refusal);
  }

  // A run that began with kept features, on whatever rank, goes on with them: without, bits would be others.
  void do_without_files(const std::string& reason) {
    prepared_.train_features = prepared_.validation_features = {};
    plan().network.features_on_disk = false;
    plan().network.keep_features = earlier_ != nullptr || options_.keep_features == KeepFeatures::always;
    reasons_.features += "; " + reason;
    prepared_.notes.push_back(
        std::string(plan().network.keep_features
                        ? "what the frozen layers give is kept in memory, more than --memory-share allows"
                        : "the frozen layers are computed at every step") +
        ", for there is no file of it: " + reason);
    if (plan().network.keep_features) return;
    prepared_.train = prepared_.validation = prepared_.test =
        nullptr;  // they keep no images, for these were to be read once
    arrange_images();
  }

  void resolve_amounts() {
    Plan& plan = this->plan();
    const int64_t prefetch = options_.prefetch > 0 ? options_.prefetch
                             : averages()          ? kReplicaPrefetch
                                                   : kPrefetch;
    plan.machine.read_ahead = prefetch;
    plan.update = resolve_update(options_, plan.data.format.kind);
    if (plan.data.streamed) {
      plan.step.mini_batch_size = train_.size();
    } else if (plan.step.tbptt_length == 0) {
      plan.step.mini_batch_size =
          std::min(options_.mini_batch_size.is_auto() ? fitting_size() : int64_t{options_.mini_batch_size},
                   plan.data.train_count);
    }
    plan.step.shards = options_.shards > 0 ? options_.shards
                       : averages()        ? default_replicas()
                                    : default_shards(plan.network.learned_count, plan.step.mini_batch_size);
    if (averages()) plan.step.mini_batch_size *= plan.step.shards;
    if (earlier_ != nullptr) {
      plan.step.mini_batch_size = earlier_->step.mini_batch_size;
      plan.update.learning_rate = earlier_->update.learning_rate;
      plan.step.shards = earlier_->step.shards;
      plan.step.sampler_replicas = earlier_->step.sampler_replicas;
    } else {
      scale_with_workers();
      deal_as_sampler();
    }
    resolve_length();
    plan.length.validate_every =
        options_.validate_every > 0 ? options_.validate_every : plan.length.steps_per_epoch;
    plan.length.patience = options_.patience >= 0
                               ? options_.patience
                               : default_patience(std::max<int64_t>(1, plan.length.validate_every));
    plan.length.max_time = options_.max_time;
    plan.record.report_averages = options_.report_score_after_averaging;
    plan.record.checkpoint_every =
        options_.checkpoint_every > 0 ? options_.checkpoint_every : plan.length.steps_per_epoch;
    plan.record.hash_every = options_.hash_every > 0 ? options_.hash_every : plan.length.steps_per_epoch;
    if (averages()) plan.machine.read_ahead = divided_up(plan.machine.read_ahead, plan.step.shards);
  }

  // Each worker then has what one has alone: as many samples in as many shards.
  void scale_with_workers() {
    if (options_.scale_with_workers == ScaleWithWorkers::none) return;
    const int64_t workers =
        resolve_placement(options_, std::numeric_limits<int64_t>::max(), inventory_, ranks()).workers;
    plan().step.mini_batch_size = std::min(plan().step.mini_batch_size * workers, plan().data.train_count);
    plan().step.shards *= workers;
    if (options_.scale_with_workers == ScaleWithWorkers::batch_and_rate)
      plan().update.learning_rate *= static_cast<double>(workers);
  }

  // A sampler's replica for each worker, with as many shards as any other unless somebody says how many there
  // are.
  void deal_as_sampler() {
    Plan& plan = this->plan();
    if (options_.sample_order == data::SampleOrder::lockstep) return;
    plan.step.sampler_replicas =
        averages() ? plan.step.shards
                   : resolve_placement(options_, plan.step.shards, inventory_, ranks()).workers;
    const int64_t replicas = plan.step.sampler_replicas,
                  whole_epoch = divided_up(plan.data.train_count, replicas) * replicas;
    if (options_.shards == 0) plan.step.shards = divided_up(plan.step.shards, replicas) * replicas;
    if (plan.step.mini_batch_size == plan.data.train_count) plan.step.mini_batch_size = whole_epoch;
    if (plan.step.mini_batch_size % replicas == 0) return;
    throw Error(
        ErrorCode::invalid_option,
        "a mini-batch of " + std::to_string(plan.step.mini_batch_size) +
            " samples cannot be dealt evenly to " + std::to_string(replicas) +
            " workers, as --sample-order distributed-sampler does",
        "--mini-batch-size " + std::to_string(divided_up(plan.step.mini_batch_size, replicas) * replicas));
  }

  void resolve_length() {
    Plan& plan = this->plan();
    plan.length.steps_per_epoch =
        plan.data.streamed ? divided_up(request_.stream->mini_batches(), plan.step.shards)
                           : data::steps_per_epoch(sample_order(plan.step).epoch_size(plan.data.train_count),
                                                   plan.step.mini_batch_size);
    plan.length.max_epochs = plan.data.streamed ? 1 : options_.max_epochs;
    if (plan.length.max_epochs == 0)
      plan.length.max_epochs = options_.max_steps > 0
                                   ? divided_up(options_.max_steps, plan.length.steps_per_epoch)
                                   : default_epochs(plan.length.steps_per_epoch);
    plan.length.max_steps = options_.max_steps;
    plan.length.total_steps =
        total_steps(plan.length.max_epochs, plan.length.steps_per_epoch, plan.length.max_steps);
    plan.length.schedule_steps = plan.length.total_steps;
  }

  // Rank 0's, or the one of the run's beginning, where there is one.
  int64_t fitting_size() {
    if (earlier_ != nullptr) {
      reasons_.mini_batch = "auto, as the run began";
      return earlier_->step.mini_batch_size;
    }
    if (options_.scale_with_workers != ScaleWithWorkers::none)
      throw Error(ErrorCode::invalid_option,
                  "--scale-with-workers has nothing to scale with --mini-batch-size auto, which takes what "
                  "memory there is",
                  "leave out one of them");
    Plan asked = plan();
    const Placement placement =
        resolve_placement(options_, std::numeric_limits<int64_t>::max(), inventory_, ranks());
    if (placement.device != "cpu" &&
        placement.workers > std::max(ranks().count, static_cast<int64_t>(placement.devices.size()))) {
      throw Error(ErrorCode::invalid_option,
                  "--mini-batch-size auto counts with one worker on a GPU, and here several share one",
                  "leave out --workers, or give a number");
    }
    asked.machine.device = placement.device;
    asked.machine.devices = placement.devices;
    asked.machine.gpu = placement.gpu;
    Options options = options_;
    if (averages() && options.shards == 0) options.shards = default_replicas();
    MemoryBudget budget = memory_budget(asked, options, inventory_);
    if (resident_choice(asked).use) budget.bytes -= static_cast<double>(resident_bytes(asked));
    const FittingBatch found =
        fitting_batch(asked, options, measure_shard_memory(prepared_.network, asked), budget.bytes);
    reasons_.mini_batch = found.reason + " (it may take " + budget.words + "); --mini-batch-size " +
                          std::to_string(found.samples) + " gives the same weights elsewhere";
    return found.samples;
  }

  // A replica for each worker.
  int64_t default_replicas() const {
    return resolve_placement(options_, std::numeric_limits<int64_t>::max(), inventory_, ranks()).workers;
  }

  void place() {
    placement_ = resolve_placement(options_, plan().step.shards, inventory_, ranks());
    plan().machine.device = placement_.device;
    plan().machine.devices = placement_.devices;
    plan().machine.gpu = placement_.gpu;
    plan().machine.workers = placement_.workers;
    plan().machine.cores = placement_.cores;
    plan().machine.fingerprint = device::arithmetic_fingerprint(placement_.devices);
    if (const device::JpegDecoder* decoder = plan().data.format.jpeg_decoder)
      plan().machine.fingerprint += "; jpeg " + decoder->fingerprint();
  }

  // Where they lie, and what follows from that.
  void arrange_images() {
    place_images();
    choose_recording();
    make_image_sets();
  }

  // What is free is asked once: trials take some of it, and what was reckoned with stays.
  ResidentChoice resident_choice(const Plan& plan) {
    if (plan.data.streamed) return {};
    if (plan.machine.device != "cpu" && !free_on_gpu_)
      free_on_gpu_ = device::gpu_library().memory(plan.machine.gpu).free;
    return choose_resident(plan, options_.resident, free_on_gpu_.value_or(0));
  }

  void place_images() {
    ResidentChoice choice = resident_choice(plan());
    plan().machine.resident = choice.use;
    plan().machine.resident_required = options_.resident == Resident::on;
    reasons_.resident = std::move(choice.reason);
  }

  void choose_recording() {
    if (!options_.cuda_graphs) return;
    const std::string against =
        recording_obstacle(plan(), prepared_.prototype.layers,
                           std::max(ranks().count, static_cast<int64_t>(plan().machine.devices.size())));
    plan().machine.cuda_graphs = against.empty();
    reasons_.cuda_graphs = against.empty() ? "asked for" : against;
  }

  // Of what would be decoded again in every epoch, and of nothing else.
  void make_automatic_cache_of(const data::Dataset& dataset, size_t place, const data::ImageShare& share) {
    if (options_.cache != "auto" || sequences() || plan().network.keep_features ||
        plan().length.total_steps <= plan().length.steps_per_epoch)
      return;
    const data::ImageFormat format = format_at(place);
    if (caches_[place].cache != nullptr || share.keeps(dataset, format, most_bytes())) return;
    AutomaticCache made = make_automatic_cache(dataset, format, cache_choice(),
                                               dry_ ? data::CacheUse::read : data::CacheUse::make);
    if (place == 0) plan().machine.cached_images = made.wanted;
    const std::string whose = place == 0 ? "" : "held-out ";
    prepared_.notes.push_back(
        made.cache != nullptr
            ? "decoded " + whose + "images are kept in \"" + made.cache->path().string() + "\" " + made.reason
            : "every " + std::string(place == 0 ? "epoch" : "validation") + " decodes all " + whose +
                  "images again, for there is no cache of them: " + made.reason);
    const std::string stale =
        caches_[place].stale && made.cache == nullptr ? "the one there is of other files; " : "";
    caches_[place] = {.cache = std::move(made.cache), .reason = stale + made.reason};
  }

  data::ImageFormat format_at(size_t place) { return place == 0 ? train_format() : plan().data.format; }

  void make_image_sets() {
    const int64_t kept_bytes = plan().network.keep_features ? 0 : most_bytes();  // images are then read once
    const auto share = request_.images != nullptr ? request_.images : std::make_shared<data::ImageShare>();
    const auto open = [&](const data::Dataset& dataset,
                          size_t place) -> std::shared_ptr<const data::ImageSet> {
      if (dataset.empty()) return nullptr;
      if (place < 2) make_automatic_cache_of(dataset, place, *share);  // a test set is read once
      return share->open(dataset, format_at(place), kept_bytes, caches_[place].cache);
    };
    if (whole_.empty()) {
      prepared_.train = open(train_, 0);
      prepared_.validation = open(validation_, 1);
    } else {
      // Trials that split one dataset in different ways share its images all the same.
      const auto whole = open(whole_, 0);
      prepared_.train = std::make_shared<const data::ImageSet>(train_, whole);
      if (queue_cuts()) {
        prepared_.validation = open(validation_, 1);  // its images are smaller
      } else if (!validation_.empty()) {
        prepared_.validation = std::make_shared<const data::ImageSet>(validation_, whole);
      }
    }
    prepared_.test = open(test_, 2);
    plan().machine.keep_images = prepared_.train->kept();
    plan().machine.cached_images |= prepared_.train->cache() != nullptr;
  }

  // A dry run leaves mean-std open: it takes a look at every image.
  void normalize() {
    Normalization found;
    if (options_.normalize != "mean-std") {
      found = parse_normalization(options_.normalize, plan().data.format.channels);
    } else if (!dry_) {
      found = sequences() ? measure_sequences(*prepared_.train, request_.stop)
                          : measure_normalization(*prepared_.train, request_.stop);
    }
    plan().data.mean = found.mean;
    plan().data.deviation = found.deviation;
  }

  void choose_precision() {
    if (options_.precision != Precision::auto_) return note_slow_precision();
    if (plan().data.streamed) {
      reasons_.precision = "a trial would take mini-batches from the iterator";
      return;
    }
    if (sequences()) {
      reasons_.precision = "recurrent layers run in float32";
      return;
    }
    const auto& units = inventory_.vector_units;
    const bool has_units = std::any_of(units.begin(), units.end(), [](const std::string& unit) {
      return unit == "avx512_bf16" || unit == "amx_bf16";
    });
    if (earlier_ != nullptr) {
      if (earlier_->step.precision == Precision::bf16_mixed) plan().step.precision = Precision::bf16_mixed;
      reasons_.precision = "as the run began";
    } else if (plan().machine.device == "cpu" && !has_units) {
      reasons_.precision = "this processor has neither AMX nor AVX512_BF16";
    } else if (validation_.empty()) {
      reasons_.precision = "without held-out images bf16-mixed cannot be judged";
    } else {
      PrecisionChoice choice = try_precisions(
          prepared_, validation_,
          std::max(ranks().count, static_cast<int64_t>(plan().machine.devices.size())), request_.stop);
      plan().step.precision = choice.precision;
      reasons_.precision = std::move(choice.reason);
    }
  }

  // LibTorch has float16's convolutions and products for processors, but not by their vector units.
  void note_slow_precision() {
    if (options_.precision != Precision::fp16_mixed || plan().machine.device != "cpu") return;
    reasons_.precision = "for GPUs: on a processor some hundred times slower than 32-true";
    prepared_.notes.push_back("--precision fp16-mixed is " + reasons_.precision +
                              "; bf16-mixed is the one for processors");
  }

  void describe() {
    reasons_.device = placement_.device_reason;
    reasons_.workers = placement_.workers_reason;
    reasons_.cache = std::move(caches_[0].reason);
    if (caches_[0].cache != nullptr) reasons_.cache_file = caches_[0].cache->path().string();
    reasons_.dry = dry_;
    reasons_.image_bytes = prepared_.train->image_bytes();
    reasons_.memory_bytes = inventory_.memory_bytes;
    plan().warnings = plan_warnings(plan(), options_);
    plan().lines = plan_lines(plan(), options_, prepared_.network, reasons_);
  }

  const TrainingRequest& request_;
  const Options& asked_;
  Options options_;  ///< as asked, and as the network's file has it
  bool dry_;
  const Plan* earlier_;
  device::Inventory inventory_;
  Prepared prepared_;
  data::Dataset whole_;  ///< what train and validation were split from, if they were
  data::Dataset train_;
  data::Dataset validation_;
  data::Dataset test_;
  std::array<data::OpenedCache, 3> caches_;  ///< of train, validation and test
  Placement placement_;
  std::optional<int64_t> free_on_gpu_;  ///< bytes
  PlanReasons reasons_;
};

}  // namespace

Prepared prepare(const TrainingRequest& request, const Options& options, bool dry, const Plan* earlier) {
  return Preparation(request, options, dry, earlier).make();
}

}  // namespace lockstep::train
