// Precompiled for sources that call LibTorch's operators or define modules. 555 MB, 3.5 s to load: others
// take precompiled_tensor.h.
#include <nlohmann/json.hpp>
#include <torch/nn/module.h>
