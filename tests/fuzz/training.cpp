// The readers of weights and run folders.
#include <array>
#include <fstream>

#include "driver.h"
#include "lockstep/nn/safetensors.h"
#include "lockstep/train/run_files.h"

using namespace lockstep;

namespace {

std::filesystem::path written(std::string_view bytes) {
  const std::filesystem::path path = "input";
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

}  // namespace

int main(int argc, char** argv) {
  const std::array readers{fuzz::Reader{"safetensors", [](std::string_view input) { nn::read_safetensors(written(input)); }},
                           fuzz::Reader{"manifest", [](std::string_view input) { train::read_manifest(written(input)); }}};
  return fuzz::run(argc, argv, readers);
}
