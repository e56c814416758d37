// The kinds of datasets that a path can name.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "lockstep/data/datastore.h"
#include "lockstep/data/image_set.h"

namespace lockstep::data {

/// Which folder gives the label: the one that directly holds the file (equal names merge, whatever the
/// depth), or the first level below the root, as torchvision's ImageFolder.
enum class Labels { folder, top };
constexpr std::array<const char*, 2> enum_names(Labels) { return {"folder", "top"}; }

struct SourceOptions {
  Labels labels = Labels::folder;
  /// What becomes of files among the images that are no images: fail names the first; skip leaves them out
  /// (see Source::skipped).
  OnBadSample on_bad_sample = OnBadSample::fail;
  /// When not empty: the classes of another dataset (the training set's), to which labels are matched by
  /// name. A class that is not among them is an error; one without samples here is fine.
  std::vector<std::string> classes = {};
  /// For prediction: images may lie anywhere, also in the root; one whose folder is not among `classes` has
  /// label -1.
  bool unlabelled = false;
  /// The most that an unpacked archive may take, bytes.
  int64_t most_memory = int64_t{4} << 30;
};

/// A dataset and what was noticed while it was listed.
struct Source {
  Dataset dataset;
  std::string kind;  ///< "image folder", "image folder, tar archive", "image folder, s3", "IDX", "IDX, s3",
                     ///< "CIFAR-10 binary", "CIFAR-100 binary", "sequence file", "sequence folder"; of an
                     ///< image folder that holds train and test folders also how to keep them apart
  std::vector<BadSample> skipped;  ///< files left out because of on_bad_sample = skip
};

/// Opens what `path` names, also in a tar archive ("plants.tar", "plants.tar.gz/train",
/// "vowels.tar/train.ts") or an object store
/// ("s3://bucket/photos"): a folder of class folders with images; a folder that holds IDX files
/// (train-images-idx3-ubyte[.gz] with its labels; the t10k pair when there is no train pair), or one such
/// images file; a folder or file of CIFAR binaries; a .ts file of sequences (sktime's and aeon's text
/// format), or a folder of class folders with CSV files, a sequence each, a line for each time step. Throws
/// not_found for a missing path; invalid_option when there is no image, only one class, or a class folder
/// without images; corrupt_data for files that are no images (with their count and the first), for broken IDX
/// or CIFAR files, and, with file and line, for sequences that cannot be read. In a folder names that begin
/// with a dot, Thumbs.db, desktop.ini and __MACOSX are not there, and links are followed. Of an image folder
/// README, LICENSE and .txt, .md, .csv, .json files beside the class folders are left alone; images are
/// ordered by class name, then by the bytes of their paths. A server that does not answer at the opening is
/// communication, one that refuses us invalid_option, as later when a sample is read.
Source open_source(const std::filesystem::path& path, const SourceOptions& options = {});

/// A folder of class folders: `data::ImageFolder("digits").split(0.9, {.seed = 1})`. Throws as open_source
/// does.
class ImageFolder : public Dataset {
 public:
  explicit ImageFolder(const std::filesystem::path& folder, const SourceOptions& options = {});
};

}  // namespace lockstep::data
