// How another process opens a dataset of files itself, instead of receiving its contents.
#pragma once

#include <string>

#include "lockstep/data/sources.h"

namespace lockstep::data {

/// An interface that a datastore of files also implements.
class Reopened {
 public:
  virtual ~Reopened() = default;
  virtual const SourceOptions& opened_with() const = 0;
  virtual std::string opened_from() const = 0;  ///< an address, or an absolute path
};

}  // namespace lockstep::data
