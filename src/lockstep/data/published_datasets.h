// Well-known datasets for programs: data::mnist().
#pragma once

#include "lockstep/data/datastore.h"
#include "lockstep/data/published_data.h"

namespace lockstep::data {

struct TrainingAndTest {
  Dataset training;
  Dataset test;
};

/// From options.folder or the cache that lockstep data get uses; downloaded if they are not there. Throw what
/// get_published_data and open_source throw.
TrainingAndTest mnist(const PublishedDataOptions& options = {});
TrainingAndTest fashion_mnist(const PublishedDataOptions& options = {});
TrainingAndTest cifar10(const PublishedDataOptions& options = {});

}  // namespace lockstep::data
