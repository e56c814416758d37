// Precompiled for sources only. Headers of ours include the narrow ATen headers they need.
#include <nlohmann/json.hpp>
#include <torch/torch.h>
