#include "lockstep/data/published_datasets.h"

#include "lockstep/data/sources.h"

namespace lockstep::data {
namespace {

TrainingAndTest open_published(const char* name, const PublishedDataOptions& options) {
  const PublishedData& data = find_published_data(name);
  const std::filesystem::path folder = get_published_data(data, options);
  Dataset training = open_source(folder).dataset;
  Dataset test = open_source(data.test_file(folder), {.classes = training.classes()}).dataset;
  return {std::move(training), std::move(test)};
}

}  // namespace

TrainingAndTest mnist(const PublishedDataOptions& options) { return open_published("mnist", options); }
TrainingAndTest fashion_mnist(const PublishedDataOptions& options) {
  return open_published("fashion-mnist", options);
}
TrainingAndTest cifar10(const PublishedDataOptions& options) { return open_published("cifar10", options); }

}  // namespace lockstep::data
