// How another process opens a dataset of files again, instead of being given what is in them.
#pragma once

#include <string>

#include "lockstep/data/sources.h"

namespace lockstep::data {

/// What a datastore of files is besides.
class Reopened {
 public:
  virtual ~Reopened() = default;
  virtual const SourceOptions& opened_with() const = 0;
  virtual std::string opened_from() const = 0;  ///< an address, or an absolute path
};

}  // namespace lockstep::data
