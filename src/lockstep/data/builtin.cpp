// The kinds of sources, in the order in which they are tried. To add one, write a file and add a line here.
// Good models are image_table.cpp for images that stay on the disk, idx.cpp for images in memory, and ts.cpp
// for sequences.
#include <array>

#include "lockstep/data/internal/kinds.h"

namespace lockstep::data {
namespace {

constexpr std::array<SourceKind, 6> kKinds{{
    {"IDX", "IDX files (train-images-idx3-ubyte[.gz])", false, is_idx_name, fits_idx, open_idx},
    {"CIFAR binary", "CIFAR binaries (data_batch_1.bin, train.bin)", false, is_cifar_name, fits_cifar,
     open_cifar},
    {"sequence file", "a sequence file (.ts)", false, is_ts_name, fits_ts, open_ts},
    {"image table", "a table (.csv, .tsv, .txt) with an image's file name and its class in each line", false,
     is_table_name, fits_image_table, open_image_table},
    {"sequence folder", "a folder of class folders with CSV files, one sequence per file", true, is_csv_name,
     fits_csv, open_csv},
    {"image folder", "a folder of class folders with PNG, JPEG, BMP, PPM, TIFF or WebP files", true, nullptr,
     fits_image_folder, open_image_folder},
}};

}  // namespace

std::span<const SourceKind> source_kinds() { return kKinds; }

}  // namespace lockstep::data
