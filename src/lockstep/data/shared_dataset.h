// A dataset for other processes, such as the workers of a pool of processes.
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/descriptor.h"
#include "lockstep/data/datastore.h"

namespace lockstep::data {

/// An image folder, and selected samples of one, are opened again by each process, which reads the files
/// itself. The samples of any other dataset are read here, once, into memory that the processes share. Must
/// exist until all processes have opened it. Any thread may call any const member.
class SharedDataset {
 public:
  /// Throws what reading a sample throws, and io.
  explicit SharedDataset(const Dataset& dataset);

  /// With which another process of this machine and user opens the dataset; empty for an empty dataset.
  std::string path() const;
  /// With which a process of any machine does, if that has the image folder at the same path; empty for an
  /// empty dataset. Throws io.
  std::string bytes() const;

 private:
  Descriptor memory_;
};

/// The same samples, labels, classes and listing in the same order. Throws corrupt_data if an image folder
/// has changed; not_found or io if the dataset no longer exists.
Dataset open_shared(const std::string& path);
/// From SharedDataset::bytes. Throws the same.
Dataset open_shared_bytes(std::string_view bytes);

}  // namespace lockstep::data
