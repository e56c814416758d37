// The published weights of built-in networks: torchvision's, trained on ImageNet. Works without LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/download/download.h"

namespace lockstep::nn {

/// A file of weights, and what its network expects of images: fitted and cut to resize x resize pixels, then
/// the centre of crop x crop of them, as torchvision's Resize and CenterCrop, in colour, with torchvision's
/// mean and deviation.
struct TrainedWeights {
  const char* network;   ///< a built-in network
  const char* file;      ///< NAME-HASH8.pth; the hash is the beginning of its SHA-256
  double megabytes;      ///< 1,048,576 bytes, as torchvision lists it
  double top1;           ///< accuracy on ImageNet's validation images in percent, as torchvision lists it
  double top5;           ///< the same, where the right class is among the five with the highest scores
  int64_t resize = 256;  ///< pixels
  int64_t crop = 224;    ///< pixels
  int64_t classes = 1000;

  std::string address() const;
  download::PublishedFile published() const;
  /// Where it is kept: $LOCKSTEP_CACHE/weights/FILE (base/user_folders.h). Throws invalid_option if the user
  /// has no folder for caches.
  std::filesystem::path path() const;
  /// As the "input" of a network file: options of lockstep train by name.
  Json expected_input() const;
};

/// All of them, in the order of their networks.
const std::vector<TrainedWeights>& trained_weights();

/// Null if nobody publishes any.
const TrainedWeights* find_trained_weights(std::string_view network);
bool has_trained_weights(std::string_view network);

/// Throws invalid_option for a network without published weights.
const TrainedWeights& trained_weights_of(std::string_view network);

/// The published weights that a file holds, by its hash; null if it holds others. Reads all of it. Throws io.
const TrainedWeights* recognise_weights(const std::filesystem::path& path);

/// Makes sure that they are in the cache, and returns the path. Throws what download::fetch throws.
///   mirror  address of a folder with copies; empty: where torchvision publishes them
std::filesystem::path get_trained_weights(const TrainedWeights& weights, const std::string& mirror = {},
                                          const download::Options& options = {});

}  // namespace lockstep::nn
