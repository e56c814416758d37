// The kinds of sources that builtin.cpp lists.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/internal/files.h"
#include "lockstep/data/sources.h"

namespace lockstep::data {

/// One kind of source: what recognises it and what opens it.
struct SourceKind {
  const char* name;
  const char* looks_like;  ///< for the message when nothing fits
  bool reads_below;        ///< whether it reads the folders in a folder, or only the files beside each other
  bool (*is_file_name)(
      std::string_view name);  ///< whether one file of this name may be named by itself; null: none may
  bool (*fits)(const Files& files);
  Source (*open)(Files files, const SourceOptions& options);
};

/// All kinds; the first that fits opens a path.
std::span<const SourceKind> source_kinds();

bool is_idx_name(std::string_view name);
bool fits_idx(const Files& files);
Source open_idx(Files files, const SourceOptions& options);
bool is_cifar_name(std::string_view name);
bool fits_cifar(const Files& files);
Source open_cifar(Files files, const SourceOptions& options);
bool is_ts_name(std::string_view name);
bool fits_ts(const Files& files);
Source open_ts(Files files, const SourceOptions& options);
bool is_csv_name(std::string_view name);
bool fits_csv(const Files& files);
Source open_csv(Files files, const SourceOptions& options);
bool fits_image_folder(const Files& files);
Source open_image_folder(Files files, const SourceOptions& options);

/// Images of one size that lie decoded in memory, as IDX and CIFAR files give them.
struct Images {
  std::string path;  ///< for source(): "path#17"
  ImageSize size;
  std::vector<uint8_t> pixels;  ///< [N,C,H,W]
  std::vector<int64_t> labels;  ///< [N]
  std::vector<std::string> classes;
};

/// Makes the dataset, its labels matched to options.classes by name when there are any. Throws invalid_option
/// for one class only or a class that is not among options.classes.
Source source_of(Images images, std::string kind, const SourceOptions& options);

/// For each of `found` its place in options.classes (`found` itself when those are empty). Throws
/// invalid_option, with the nearest name, for one that is not there (-1 when options.unlabelled).
std::vector<int64_t> match_classes(const std::vector<std::string>& found, const std::string& path,
                                   const SourceOptions& options);

/// Throws out_of_memory when what is read from a file, `bytes` in memory, is more than this process may have.
void check_fits_memory(const std::string& path, int64_t bytes);

/// Throws invalid_option when `count` classes are too few to learn from; with options.classes or unlabelled
/// any count will do.
void check_class_count(size_t count, const std::string& path, const SourceOptions& options);

}  // namespace lockstep::data
