#include "lockstep/train/planning/prepare.h"

#include <algorithm>
#include <tuple>

#include "lockstep/base/hash.h"
#include "lockstep/data/mini_batch_stream.h"
#include "lockstep/nn/layers.h"
#include "lockstep/train/options/normalization.h"
#include "lockstep/train/options/on_worker.h"
#include "lockstep/train/planning/class_weights.h"
#include "lockstep/train/planning/data_checks.h"
#include "lockstep/train/planning/feature_choice.h"
#include "lockstep/train/planning/fitting_batch.h"
#include "lockstep/train/planning/image_sets.h"
#include "lockstep/train/planning/mini_batch.h"
#include "lockstep/train/planning/module_choice.h"
#include "lockstep/train/planning/network_choice.h"
#include "lockstep/train/planning/network_work.h"
#include "lockstep/train/planning/open_data.h"
#include "lockstep/train/planning/option_checks.h"
#include "lockstep/train/planning/plan_lines.h"
#include "lockstep/train/planning/precision_probe.h"
#include "lockstep/train/planning/recipe_use.h"
#include "lockstep/train/planning/resident_choice.h"
#include "lockstep/train/planning/resolve.h"
#include "lockstep/train/planning/sample_format.h"
#include "lockstep/train/planning/sequence_data.h"
#include "lockstep/train/planning/split.h"
#include "lockstep/train/planning/start_weights.h"
#include "lockstep/train/planning/this_machine.h"
#include "lockstep/train/step/recorded_shards.h"

namespace lockstep::train {
namespace {

// Reads every sample.
Normalization measure_mean_std(const data::ImageSet& train, int64_t threads, const std::stop_token& stop) {
  return train.format().kind == data::SampleKind::sequence ? measure_sequences(train, stop)
                                                           : measure_normalization(train, threads, stop);
}

DataPaths paths_of(const TrainingRequest& request, const Options& options) {
  return {.train = request.dataset.empty() ? request.folder.string() : "",
          .validation = options.validation,
          .test = options.test};
}

// --precision auto may later choose bf16-mixed, which needs less memory.
void check_memory(Plan plan, Precision asked, const nn::Network& network, const ThisMachine& machine) {
  if (asked == Precision::auto_) plan.step.precision = Precision::bf16_mixed;
  check_step_memory(plan, network,
                    static_cast<double>(machine.ranks_here) / static_cast<double>(machine.ranks.count),
                    machine.inventory);
}

// The options end here: each part resolves its own into the plan, and the lines are made from the plan.
class Preparation {
 public:
  Preparation(const TrainingRequest& request, const Options& asked, bool dry, const Plan* earlier)
      : request_(request),
        asked_(asked),
        options_(with_gpus(asked, request.gpus)),
        dry_(dry),
        earlier_(earlier),
        machine_(this_machine(request, options_)),
        recipe_(request, asked, earlier),
        resident_(asked.resident) {
    check_values(asked);
    if (earlier != nullptr) options_.pretrained = started_from(*earlier, options_);
    complete_options();
    recipe_.begin(options_);
    choose_known_network();
  }

  Prepared make() {
    check_combinations(options_);
    if (request_.standing != nullptr) check_options_of_several_fits(options_);
    reasons_ = reasons_of(options_, machine_.inventory);
    resolve_options();
    open_samples();
    choose_format();
    open_image_caches();
    split_samples();
    choose_values();
    limit_batches();
    if (sequences()) arrange_sequences();
    choose_network();
    resolve_amounts();
    place_workers();
    check_memory(plan_, options_.precision, prepared_.network, machine_);
    choose_kept_features();
    arrange_images();
    normalize();
    choose_precision();
    open_files_of_features();
    describe();
    return std::move(prepared_);
  }

 private:
  bool sequences() const { return plan_.data.format.kind == data::SampleKind::sequence; }
  int64_t memory_bytes() const { return machine_.share_of_memory(options_.memory_share); }
  CacheChoice cache_choice() const { return {options_.cache, options_.cache_size}; }
  data::CacheUse cache_use() const { return dry_ ? data::CacheUse::read : data::CacheUse::make; }
  void note(std::string text) { prepared_.notes.push_back(std::move(text)); }
  void add_skipped(const std::vector<data::BadSample>& skipped) {
    prepared_.skipped.insert(prepared_.skipped.end(), skipped.begin(), skipped.end());
  }

  void complete_options() {
    options_ = completed(options_, request_.network, {.given = request_.given, .earlier = earlier_});
    if (options_.fast_dev_run) options_.limit_batches = options_.max_epochs = 1;
  }

  void choose_known_network() {
    if (!request_.network.empty()) {
      prepared_.network = request_.network;
    } else if (options_.network != "auto") {
      prepared_.network = nn::find_network(options_.network);
    }
  }

  // What was filled in for random weights is open again.
  void start_from_trained() {
    const Options filled_in = std::exchange(options_, with_gpus(asked_, request_.gpus));
    options_.pretrained = filled_in.pretrained;
    complete_options();
    choose_known_network();
    reasons_.network = "by the recipe";
    reasons_.weights = start_reason(options_);
    reasons_.normalize = options_.normalize;
  }

  void choose_values() {
    if (!recipe_.choose(sets_.train, plan_.data.format, options_)) return;
    if (prepared_.network.empty() && options_.network != "auto") {
      prepared_.network = nn::find_network(options_.network);
      reasons_.network = "by the recipe";
    }
    plan_.data.augment = data::Augment::parse(options_.augment);
    plan_.step.batch_norm_start = options_.batch_norm_start;
    reasons_.normalize = options_.normalize;
  }

  void limit_batches() {
    if (options_.limit_batches == 0) return;
    limit_samples(sets_, options_.limit_batches, options_.mini_batch_size);
    count_samples();
  }

  void resolve_options() {
    plan_.data = resolve_data(options_);
    plan_.step = resolve_step(options_);
    plan_.exchange = resolve_exchange(options_);
    plan_.data.streamed = request_.stream != nullptr;
    if (plan_.data.streamed) check_options_of_stream(options_, asked_.color, request_.stream->gives_floats());
  }

  void open_samples() {
    OpenedData opened = open_data(request_, options_, memory_bytes(), earlier_);
    sets_ = std::move(opened.sets);
    check_labels(sets_);
    add_skipped(opened.skipped);
    plan_.data.classes = sets_.train.classes();
    reasons_.source = std::move(opened.kind);
    reasons_.source_warnings = std::move(opened.warnings);
    if (!opened.validation_file.empty()) reasons_.validation = "from " + opened.validation_file;
    if (!opened.test_file.empty()) reasons_.test = "from " + opened.test_file;
    if (earlier_ == nullptr) check_kind_of_data(asked_, sets_.train.store().kind());
  }

  void choose_format() {
    DataPlan& data = plan_.data;
    if (sets_.train.store().kind() == data::SampleKind::sequence) {
      data.format = sequence_format(sets_.train, options_.sequence_padding);
      return;
    }
    FormatChoice choice =
        data.streamed ? stream_format(sets_.train)
                      : choose_image_format(sets_.train, options_, machine_, !request_.network.empty());
    data.format = choice.format;
    if (!data.streamed && recipe_.starts_from_trained(sets_.train, data.format, options_)) {
      start_from_trained();
      return choose_format();
    }
    if (recipe_.makes_images_smaller(sets_.train, data.format, options_)) return choose_format();
    reasons_.image_size = std::move(choice.size_reason);
    const bool by_run = earlier_ != nullptr && asked_.color == Color::auto_;
    reasons_.color = by_run ? "of the run" : std::move(choice.color_reason);
    if (!by_run && !choice.color_note.empty()) note(std::move(choice.color_note));
    data.resize_to = resolve_resize_to(options_, data);
    if (!data.resize_to.empty()) reasons_.image_size = cut_out_centres(sets_, data);
  }

  void open_image_caches() {
    caches_ = open_caches(sets_, paths_of(request_, options_), plan_.data, cache_choice(), cache_use());
  }

  void split_samples() {
    const bool searches = plan_.data.on_bad_sample == data::OnBadSample::skip && !dry_;
    if (searches && !sequences() && !plan_.data.streamed)
      add_skipped(leave_out_bad_samples(sets_, plan_.data, caches_, machine_.inventory.cores));
    plan_.data.listing_hash = as_hex(sets_.train.store().listing_hash());
    plan_.data.held_out_listing_hash =
        as_hex(sets_.validation.empty() ? 0 : sets_.validation.store().listing_hash());
    std::string held_out = hold_out(sets_, options_, plan_.data);
    if (reasons_.validation.empty()) reasons_.validation = std::move(held_out);
    count_samples();
  }

  void count_samples() {
    plan_.data.train_count = plan_.data.streamed ? 0 : sets_.train.size();
    plan_.data.validation_count = sets_.validation.size();
    plan_.data.test_count = sets_.test.size();
    if (plan_.data.streamed) return;
    plan_.data.class_counts = count_classes(sets_.train);
    if (options_.class_weights == ClassWeights::balanced)
      plan_.data.class_weights = balanced_weights(plan_.data.class_counts);
  }

  void arrange_sequences() {
    check_options_of_sequences(options_);
    if (options_.sort_by_length) sets_.train = sorted_by_length(sets_.train);
    plan_.step.tbptt_length = options_.tbptt_length;
    if (plan_.step.tbptt_length == 0) return;
    plan_.step.mini_batch_size = earlier_ != nullptr
                                     ? earlier_->step.mini_batch_size
                                     : std::min<int64_t>(options_.mini_batch_size, sets_.train.size());
    cut_into_pieces(sets_, plan_.step.tbptt_length, plan_.step.mini_batch_size);
    count_samples();
  }

  void choose_network() {
    const data::ImageFormat& format = plan_.data.format;
    if (reasons_.network.empty()) reasons_.network = request_.network.empty() ? "asked for" : "given";
    if (prepared_.network.empty()) std::tie(prepared_.network, reasons_.network) = default_network(format);
    options_.head = head_for(options_, sets_.train.classes(), {.given = request_.given, .earlier = earlier_});
    auto choice = make_network(prepared_.network, network_input(sets_.train, format), options_, plan_.step);
    prepared_.network = std::move(choice.network);
    prepared_.prototype = std::move(choice.prototype);
    plan_.network = std::move(choice.plan);
    choose_module_pass(prepared_, reasons_, {options_, machine_, earlier_});
  }

  void resolve_amounts() {
    plan_.machine.read_ahead = resolve_read_ahead(options_);
    plan_.update = resolve_update(options_, plan_.data.format.kind);
    plan_.update.may_start_again = recipe_.leaves_rate_open();
    if (plan_.data.streamed) plan_.step.mini_batch_size = sets_.train.size();
    MiniBatchChoice choice = earlier_ != nullptr
                                 ? mini_batch_of(*earlier_, options_)
                                 : choose_mini_batch(prepared_, options_, machine_, resident_);
    plan_.step.mini_batch_size = choice.size;
    plan_.step.shards = choice.shards;
    plan_.step.batch_norm_group = choice.batch_norm_group;
    plan_.step.sampler_replicas = choice.sampler_replicas;
    reasons_.mini_batch = std::move(choice.reason);
    plan_.update.learning_rate = earlier_ != nullptr ? earlier_->update.learning_rate
                                                     : plan_.update.learning_rate * choice.rate_factor;
    plan_.length = resolve_length(options_, plan_.data, plan_.step,
                                  plan_.data.streamed ? request_.stream->mini_batches() : 0);
    plan_.update.rate_test_steps =
        earlier_ != nullptr ? earlier_->update.rate_test_steps : resolve_rate_test(options_, plan_.length);
    reasons_.rate_to_be_tested = options_.learning_rate.is_auto();
    plan_.update.head_steps = options_.unfreeze_after * plan_.length.steps_per_epoch;
    plan_.record = resolve_record(options_, plan_.length.steps_per_epoch);
    if (plan_.exchange.averages())
      plan_.machine.read_ahead = divided_up(plan_.machine.read_ahead, plan_.step.shards);
  }

  void place_workers() {
    Placement placement = resolve_placement(options_, plan_.step.shards, machine_.inventory, machine_.ranks);
    place_on(plan_.machine, placement, plan_.data.format.jpeg_decoder);
    reasons_.device = std::move(placement.device_reason);
    reasons_.workers = std::move(placement.workers_reason);
    reasons_.ranks = machine_.rank_count(plan_.machine.devices);
    plan_.machine.rank_loads = rank_loads(options_, plan_, reasons_.ranks);
    reasons_.deal = choose_deal(plan_, {.ranks = reasons_.ranks,
                                        .one_machine = machine_.ranks_here == reasons_.ranks,
                                        .work = forward_work(prepared_.network, plan_.network.input)});
    if (!reasons_.deal.loads.empty()) plan_.machine.rank_loads = reasons_.deal.loads;
    reasons_.loaders = request_.loaders;
    reasons_.loader_count = request_.loader_count;
  }

  void choose_kept_features() {
    FeatureChoice choice =
        choose_features(prepared_, sets_.train, feature_request(options_, machine_, earlier_));
    plan_.network.keep_features = choice.keep;
    plan_.network.features_on_disk = choice.on_disk;
    reasons_.features = std::move(choice.reason);
  }

  void arrange_images() {
    ResidentChoice resident = resident_.choose(plan_);
    plan_.machine.resident = resident.use;
    plan_.machine.resident_required = options_.resident == Resident::on;
    reasons_.resident = std::move(resident.reason);
    const RecordingChoice recording = choose_recording(
        plan_, options_.cuda_graphs, prepared_.prototype.layers, machine_.rank_count(plan_.machine.devices));
    plan_.machine.cuda_graphs = recording.use;
    plan_.machine.side_by_side = recording.side_by_side;
    reasons_.cuda_graphs = recording.reason;
    plan_.exchange.overlap = plan_.exchange.overlap && !recording.use;  // which makes all gradients at once
    ImageSets images = open_image_sets(sets_, plan_, caches_,
                                       {.share = request_.images,
                                        .most_bytes = memory_bytes(),
                                        .cache = cache_choice(),
                                        .use = cache_use()});
    prepared_.train = std::move(images.train);
    prepared_.validation = std::move(images.validation);
    prepared_.test = std::move(images.test);
    plan_.machine.keep_images = prepared_.train->kept();
    plan_.machine.cached_images = images.cached;
    for (std::string& text : images.notes) note(std::move(text));
  }

  void normalize() {
    Normalization found;
    if (earlier_ != nullptr) {
      found = {earlier_->data.mean, earlier_->data.deviation};
    } else if (options_.normalize != "mean-std") {
      found = parse_normalization(options_.normalize, plan_.data.format.channels);
    } else if (!dry_) {
      found = measure_mean_std(*prepared_.train, machine_.inventory.cores, request_.stop);
    }
    plan_.data.mean = found.mean;
    plan_.data.deviation = found.deviation;
  }

  void choose_precision() {
    if (options_.precision == Precision::auto_) {
      PrecisionChoice choice =
          resolve_precision(prepared_, {.held_out = sets_.validation,
                                        .earlier = earlier_,
                                        .has_bf16_units = has_bf16_units(machine_.inventory),
                                        .ranks = machine_.rank_count(plan_.machine.devices),
                                        .stop = request_.stop});
      plan_.step.precision = choice.precision;
      reasons_.precision = std::move(choice.reason);
      return;
    }
    reasons_.precision = slow_precision_reason(plan_);
    if (!reasons_.precision.empty())
      note("--precision fp16-mixed is " + reasons_.precision + "; use bf16-mixed on processors");
  }

  void open_files_of_features() {
    if (!plan_.network.keep_features || dry_) return;
    FeatureFiles files = open_feature_files(prepared_, cache_choice());
    if (plan_.network.features_on_disk && !files.refusal.empty()) return do_without_files(files.refusal);
    prepared_.train_features = std::move(files.train);
    prepared_.validation_features = std::move(files.validation);
  }

  void do_without_files(const std::string& reason) {
    const bool required = earlier_ != nullptr || options_.keep_features == KeepFeatures::always;
    note(keep_without_files(plan_.network, required) + reason);
    reasons_.features += "; " + reason;
    if (required) return;
    // The images were opened without memory for them, because each was to be read once.
    prepared_.train = prepared_.validation = prepared_.test = nullptr;
    arrange_images();
  }

  void describe() {
    reasons_.cache = std::move(caches_.train.reason);
    if (caches_.train.cache != nullptr) reasons_.cache_file = caches_.train.cache->path().string();
    reasons_.image_bytes = prepared_.train->image_bytes();
    plan_.recipe = recipe_.plan();
    reasons_.none_held_out = holds_out(options_) && sets_.validation.empty() && !plan_.data.streamed;
    reasons_.normalization_warning = normalization_warning(options_, request_.network, plan_.data.format);
    plan_.warnings = plan_warnings(plan_, reasons_, options_.resume);
    reasons_.dry = dry_;
    plan_.lines = plan_lines(plan_, prepared_.network, reasons_);
  }

  const TrainingRequest& request_;
  const Options& asked_;
  Options options_;  // as asked, and as the network's file and the task's GPUs complete them
  const bool dry_;
  const Plan* earlier_;
  const ThisMachine machine_;
  RecipeUse recipe_;
  Prepared prepared_;
  Plan& plan_ = prepared_.plan;
  Datasets sets_;
  ImageCaches caches_;
  ResidentChooser resident_;
  PlanReasons reasons_;
};

}  // namespace

Prepared prepare(const TrainingRequest& request, const Options& options, bool dry, const Plan* earlier) {
  return Preparation(request, options, dry, earlier).make();
}

}  // namespace lockstep::train
