// The kinds of sources that builtin.cpp lists.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/data/csv_name.h"
#include "lockstep/data/internal/files.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {

/// A kind of source: how to recognise it and how to open it.
struct SourceKind {
  const char* name;
  const char* looks_like;  ///< for the error message if no kind fits
  bool reads_below;        ///< whether it also reads the folders in a folder, or only its files
  bool (*is_file_name)(
      std::string_view name);  ///< whether a path may name a single file of this name; null: never
  bool (*fits)(const Files& files);
  Source (*open)(Files files, const SourceOptions& options);
};

/// All kinds; the first one that fits opens the path.
std::span<const SourceKind> source_kinds();

bool is_idx_name(std::string_view name);
bool fits_idx(const Files& files);
Source open_idx(Files files, const SourceOptions& options);
bool is_cifar_name(std::string_view name);
bool is_published_cifar_name(std::string_view name);  ///< of a file in CIFAR's archives
bool fits_cifar(const Files& files);
Source open_cifar(Files files, const SourceOptions& options);
bool is_ts_name(std::string_view name);
bool fits_ts(const Files& files);
Source open_ts(Files files, const SourceOptions& options);
bool fits_image_table(const Files& files);
Source open_image_table(Files files, const SourceOptions& options);
/// The table in a folder that has the classes of most of its images, and of more images than classes. Empty:
/// there is none. Reads at most 20 tables of at most 16 MiB, texts (.txt) last; what cannot be read is none.
std::string table_of_classes(const Files& folder);
bool fits_csv(const Files& files);
Source open_csv(Files files, const SourceOptions& options);
bool fits_image_folder(const Files& files);
Source open_image_folder(Files files, const SourceOptions& options);

/// Images of one size that are decoded in memory, as IDX and CIFAR files provide them.
struct Images {
  std::string path;  ///< for source(): "path#17"
  /// The first image of each file, where these are several; source() then names the file.
  std::vector<std::pair<int64_t, std::string>> files{};
  ImageSize size;
  std::vector<uint8_t> pixels;  ///< [N,C,H,W]
  std::vector<int64_t> labels;  ///< [N]
  std::vector<std::string> classes;
};

/// Makes the dataset. If options.classes is not empty, labels are matched to it by name. Throws
/// invalid_option if there is only one class, or a class that is not in options.classes.
Source source_of(Images images, std::string kind, const SourceOptions& options);

/// The index in options.classes of each of `found` (`found` itself if there are no such classes); a name may
/// be in another of Unicode's forms. Throws invalid_option with the nearest name for an unknown class (-1
/// with options.unlabelled).
std::vector<int64_t> match_classes(const std::vector<std::string>& found, const std::string& path,
                                   const SourceOptions& options);

/// Throws invalid_option for a name that is not UTF-8, in which files about a run are written, and for two
/// names that would be two classes but differ only in Unicode's form. A name that is only compared with
/// options.classes (unlabelled) may be any.
void check_class_names(const std::vector<std::string>& names, const std::string& path,
                       const SourceOptions& options);

/// Throws out_of_memory if data read from a file, which take `bytes` in memory, exceed this process's limit.
void check_fits_memory(const std::string& path, int64_t bytes);

/// Throws invalid_option if `count` classes are too few to learn from; with options.classes or unlabelled any
/// number is allowed.
void check_class_count(size_t count, const std::string& path, const SourceOptions& options,
                       std::string hint = "name the folder that contains one folder for each class");

}  // namespace lockstep::data
