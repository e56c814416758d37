#include "lockstep/nn/trained_weights.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/user_folders.h"
#include "lockstep/download/sha256.h"

namespace lockstep::nn {
namespace {

constexpr const char* kPublisher = "https://download.pytorch.org/models/";
constexpr size_t kHashDigits = 8;
constexpr double kMegabyte = 1 << 20;

std::string size_text(int64_t pixels) { return std::to_string(pixels) + "x" + std::to_string(pixels); }

}  // namespace

// torchvision 0.29 (models/*.py, DEFAULT); tests/interop/trained_weights_test.py compares. The two files of
// 2022 (IMAGENET1K_V2) were trained for images that are fitted to 232 pixels.
const std::vector<TrainedWeights>& trained_weights() {
  static const std::vector<TrainedWeights> all{
      {"alexnet", "alexnet-owt-7be5be79.pth", 233.087, 56.522, 79.066},
      {"mobilenet_v2", "mobilenet_v2-7ebf99e0.pth", 13.598, 72.154, 90.822, 232},
      {"resnet18", "resnet18-f37072fd.pth", 44.661, 69.758, 89.078},
      {"resnet50", "resnet50-11ad3fa6.pth", 97.79, 80.858, 95.434, 232},
      {"squeezenet", "squeezenet1_0-b66bff10.pth", 4.778, 58.092, 80.42},
      {"squeezenet1_1", "squeezenet1_1-b8a52dc0.pth", 4.729, 58.178, 80.624},
      {"vgg16", "vgg16-397923af.pth", 527.796, 71.592, 90.382},
  };
  return all;
}

std::string TrainedWeights::address() const { return std::string(kPublisher) + file; }

download::PublishedFile TrainedWeights::published() const {
  const std::string name = file;
  return {.address = address(),
          .sha256 = name.substr(name.rfind('-') + 1, kHashDigits),
          .most_bytes = static_cast<int64_t>(std::ceil((megabytes + 0.01) * kMegabyte))};
}

std::filesystem::path TrainedWeights::path() const {
  const std::filesystem::path caches = lockstep_cache_folder();
  if (caches.empty())
    throw Error(ErrorCode::invalid_option, "there is no folder for downloaded weights",
                "set LOCKSTEP_CACHE to a folder, with its whole path");
  return caches / "weights" / file;
}

Json TrainedWeights::expected_input() const {
  return {{"image-size", size_text(crop)},
          {"resize", "crop"},
          {"resize-to", size_text(resize)},
          {"color", "rgb"},
          {"normalize", "imagenet"}};
}

const TrainedWeights* find_trained_weights(std::string_view network) {
  const auto& all = trained_weights();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const TrainedWeights& weights) { return weights.network == network; });
  return found == all.end() ? nullptr : &*found;
}

bool has_trained_weights(std::string_view network) { return find_trained_weights(network) != nullptr; }

const TrainedWeights& trained_weights_of(std::string_view network) {
  if (const TrainedWeights* found = find_trained_weights(network)) return *found;
  std::vector<std::string> names;
  for (const TrainedWeights& weights : trained_weights()) names.emplace_back(weights.network);
  const std::string near = nearest(network, names);
  throw Error(ErrorCode::invalid_option, "there are no published weights of \"" + std::string(network) + "\"",
              near.empty() ? "there are some of " + join(names, ", ") : "did you mean " + near + "?");
}

const TrainedWeights* recognise_weights(const std::filesystem::path& path) {
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  std::string hash;
  for (const TrainedWeights& weights : trained_weights()) {
    // Sizes are listed to a thousandth of a megabyte. A hash of 8 digits alone would be equal by chance once
    // in four billion files.
    if (std::abs(bytes / kMegabyte - weights.megabytes) > 0.01) continue;
    if (hash.empty()) hash = download::sha256_of_file(path);
    if (hash.starts_with(weights.published().sha256)) return &weights;
  }
  return nullptr;
}

std::filesystem::path get_trained_weights(const TrainedWeights& weights, const std::string& mirror,
                                          const download::Options& options) {
  download::PublishedFile file = weights.published();
  if (!mirror.empty()) file.address = download::on_mirror(mirror, file.address);
  std::filesystem::path path = weights.path();
  download::fetch(file, path, options);
  return path;
}

}  // namespace lockstep::nn
