// A dataset for other processes of this machine and user, such as the workers of a pool of processes.
#pragma once

#include <string>

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

  /// The description with which another process opens the dataset; empty for an empty dataset.
  std::string path() const;

 private:
  Descriptor memory_;
};

/// The same samples, labels, classes and listing in the same order. Throws corrupt_data if an image folder
/// has changed; not_found or io if the dataset no longer exists.
Dataset open_shared(const std::string& path);

}  // namespace lockstep::data
