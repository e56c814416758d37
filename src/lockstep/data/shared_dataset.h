// A dataset for other processes of this machine and user, as the workers of a pool of processes are.
#pragma once

#include <string>

#include "lockstep/base/descriptor.h"
#include "lockstep/data/datastore.h"

namespace lockstep::data {

/// An image folder, and chosen samples of one, are opened again by who wants them: they read its files by
/// themselves. The samples of any other dataset are read here, once, into memory that the processes share.
/// Lives at least until all have opened it. Any thread may call any const member.
class SharedDataset {
 public:
  /// Throws what reading a sample throws, and io.
  explicit SharedDataset(const Dataset& dataset);

  /// By what another process opens it; empty for an empty dataset.
  std::string path() const;

 private:
  Descriptor memory_;
};

/// The same samples, labels, classes and listing in the same order. Throws corrupt_data where an image folder
/// is another one by now; not_found, io where the dataset is gone.
Dataset open_shared(const std::string& path);

}  // namespace lockstep::data
