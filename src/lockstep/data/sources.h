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

/// Which folder gives the label: the one that directly contains the file (equal names merge, at any depth),
/// or the first level below the root, as in torchvision's ImageFolder.
enum class Labels { folder, top };
constexpr std::array<const char*, 2> enum_names(Labels) { return {"folder", "top"}; }

struct SourceOptions {
  Labels labels = Labels::folder;
  /// What to do with files that are not images, with broken links and with empty class folders: fail throws
  /// an error naming the first one; skip skips them (see Source::skipped).
  OnBadSample on_bad_sample = OnBadSample::fail;
  /// If not empty: the classes of another dataset (the training set), to which labels are matched by name. An
  /// unknown class is an error; a class without samples is allowed.
  std::vector<std::string> classes = {};
  /// For prediction: images may be in any folder, also in the root; if the folder is not among `classes`, the
  /// label is -1.
  bool unlabelled = false;
  /// Of a folder with training and test images (IDX, CIFAR) the test images, if there are any.
  bool test_part = false;
  /// Maximum memory for an unpacked archive, in bytes.
  int64_t most_memory = int64_t{4} << 30;
};

/// A dataset, and what was found while it was listed.
struct Source {
  Dataset dataset;
  /// "image folder", "image folder, tar archive", "image folder, s3", "image table", "IDX", "IDX, s3",
  /// "CIFAR-10 binary", "CIFAR-100 binary", "sequence file", "sequence folder"
  std::string kind;
  std::vector<BadSample> skipped;  ///< files skipped because of on_bad_sample = skip
  std::string warning = {};        ///< of folders such as train and test that are used as one or as classes
  std::string file = {};           ///< the one that is used of several IDX or CIFAR files
};

/// Opens the dataset that `path` names, also in a tar archive ("plants.tar", "plants.tar.gz/train",
/// "vowels.tar/train.ts") or an object store ("s3://bucket/photos"). It may be:
///   - a folder of class folders with images;
///   - a table of images in its folder and their classes (.csv, .tsv, .txt; docs/stores.md);
///   - a folder with IDX files (train-images-idx3-ubyte[.gz] with its labels; the t10k pair if there is no
///   train pair, or with SourceOptions::test_part), or one such image file;
///   - a folder or file of CIFAR binaries, with the same parts; also a folder above one of these two kinds;
///   - a .ts file of sequences (the text format of sktime and aeon), or a folder of class folders with CSV
///   files: one sequence per file, one line per time step.
/// Throws not_found for a missing path; invalid_option if there are no images, only one class, or a class
/// folder without images or CSV files; corrupt_data for files that are not images, or links beside CSV files
/// that cannot be read (with their number and the first one), for broken IDX or CIFAR files, and, with file
/// and line, for sequences that cannot be read. Throws communication if a server does not answer, and
/// invalid_option if it denies access; reading a sample later throws the same.
/// In a folder, names that begin with a dot, Thumbs.db, ehthumbs.db, desktop.ini, $RECYCLE.BIN, System Volume
/// Information, lost+found, __MACOSX, @eaDir and macOS's Icon files are ignored, and links are followed. In a
/// folder of CSV files, files by other names are ignored. In an image folder, README, LICENSE and .txt, .md,
/// .csv, .tsv, .json files beside the class folders are ignored; images are ordered by class name, then by
/// the bytes of their paths.
Source open_source(const std::filesystem::path& path, const SourceOptions& options = {});

/// A folder of class folders: `data::ImageFolder("digits").split(0.9, {.seed = 1})`. Throws as open_source
/// does.
class ImageFolder : public Dataset {
 public:
  explicit ImageFolder(const std::filesystem::path& folder, const SourceOptions& options = {});
};

}  // namespace lockstep::data
