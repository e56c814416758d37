// What a price list does not say about machines: their network, and how fast their GPUs are.
#pragma once

#include <string>

#include "lockstep/cloud/prices.h"

namespace lockstep::cloud {

struct Network {
  double gbit_per_second = 0;  ///< of one machine; 0: not known
  bool efa = false;            ///< Elastic Fabric Adapter: machines reach each other's memory without TCP
};

/// From AWS's pages on instance types.
Network network_of(const std::string& type);

/// How fast a GPU trains, with an A100 (40 GB) as 1: the smaller of its shares in tensor operations (16 bits,
/// dense) and in memory bandwidth, by the vendor's data sheets. It was not measured. 0: not known.
double relative_speed(const std::string& gpu);

/// The workers of one machine: its GPUs, or without GPUs its cores.
int64_t workers_of(const Price& price);

}  // namespace lockstep::cloud
