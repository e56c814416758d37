#include "lockstep/train/planning/open_data.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/mini_batch_stream.h"
#include "lockstep/data/shared_samples.h"
#include "lockstep/data/sources.h"
#include "lockstep/train/planning/place_of_run.h"

namespace lockstep::train {
namespace {

constexpr int64_t kLeastForArchive = 64 << 20;  // bytes

class DataOpener {
 public:
  enum class Part { training, judging };

  DataOpener(const Options& options, std::shared_ptr<data::ImageShare> share, int64_t most_memory)
      : options_(options),
        share_(share != nullptr ? std::move(share) : std::make_shared<data::ImageShare>()),
        most_memory_(std::max(most_memory, kLeastForArchive)) {}

  data::Source open(const std::string& path, const std::vector<std::string>& classes, Part part) {
    data::Source source = share_->open_source(path, {.labels = options_.labels,
                                                     .on_bad_sample = options_.on_bad_sample,
                                                     .classes = classes,
                                                     .test_part = part == Part::judging,
                                                     .most_memory = most_memory_});
    opened_.skipped.insert(opened_.skipped.end(), source.skipped.begin(), source.skipped.end());
    if (opened_.kind.empty()) {
      opened_.kind = source.kind;
      if (!source.warning.empty()) opened_.warnings.push_back(source.warning);
    }
    return source;
  }

  /// Held-out or test data: given by the caller, else at `path`, else none.
  data::Source judging_data(const data::Dataset& given, const std::string& path,
                            const std::vector<std::string>& classes) {
    if (!given.empty() || path.empty()) return {given, "", {}};
    return open(path, classes, Part::judging);
  }

  void warn_of_shared(const data::Dataset& train, const data::Source& judging, const std::string& option) {
    if (judging.kind.empty()) return;  // the caller gave them
    const int64_t shared = data::shared_samples(train, judging.dataset), all = judging.dataset.size();
    if (shared == 0) return;
    const bool sequences = train.store().kind() == data::SampleKind::sequence;
    const std::string noun = sequences ? "sequence" : "image";
    const std::string which =
        all == 1 ? "the only " + noun
                 : (shared == all ? "all " : with_commas(shared) + " of the ") + counted(all, noun);
    opened_.warnings.push_back(which + " of " + option + (shared == 1 ? " is" : " are") +
                               " among the training data, so the accuracy on " + (all == 1 ? "it" : "them") +
                               " says nothing about new " + noun + "s");
  }

  OpenedData& opened() { return opened_; }

 private:
  const Options& options_;
  const std::shared_ptr<data::ImageShare> share_;
  const int64_t most_memory_;
  OpenedData opened_;
};

}  // namespace

OpenedData open_data(const TrainingRequest& request, const Options& options, int64_t most_memory,
                     const Plan* earlier) {
  DataOpener opener(options, request.images, most_memory);
  OpenedData& opened = opener.opened();
  Datasets& sets = opened.sets;
  const bool goes_on = options.resume && earlier != nullptr;
  if (request.stream != nullptr) {
    sets.train = request.stream->outline();
    opened.kind = "mini-batches of an iterator, each read once";
  } else {
    if (request.dataset.empty() && request.folder.empty())
      throw Error(ErrorCode::invalid_option, "the dataset is empty",
                  "give training data with samples, or the folder that contains them");
    sets.train =
        !request.dataset.empty()
            ? request.dataset
            : opener
                  .open(request.folder.string(), goes_on ? earlier->data.classes : std::vector<std::string>{},
                        DataOpener::Part::training)
                  .dataset;
  }
  const std::vector<std::string>& classes = sets.train.classes();
  const auto place = [&](const std::string& path) {
    return goes_on ? seen_by_run(path, std::filesystem::path(options.output)) : path;
  };
  const data::Source validation = opener.judging_data(request.validation, place(options.validation), classes);
  sets.validation = validation.dataset;
  opened.validation_file = validation.file;
  const data::Source test = opener.judging_data(request.test, place(options.test), classes);
  sets.test = test.dataset;
  opened.test_file = test.file;
  if (earlier == nullptr && request.dataset.empty() && request.stream == nullptr) {
    opener.warn_of_shared(sets.train, validation, "--validation " + options.validation);
    opener.warn_of_shared(sets.train, test, "--test " + options.test);
  }
  if (classes.size() < 2)
    throw Error(ErrorCode::invalid_option,
                "the training data have " +
                    (classes.empty() ? std::string("0 classes") : std::string("1 class")) +
                    "; a classifier needs two or more",
                "add data of another class; a datastore names all classes in classes()");
  return std::move(opened);
}

}  // namespace lockstep::train
