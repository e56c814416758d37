// The readers of weights and run folders.
#include <array>
#include <fstream>

#include <zlib.h>

#include "driver.h"
#include "lockstep/nn/graph.h"
#include "lockstep/nn/safetensors.h"
#include "lockstep/nn/torch_file.h"
#include "lockstep/train/run_files.h"

using namespace lockstep;

namespace {

std::filesystem::path written(std::string_view bytes) {
  const std::filesystem::path path = "input";
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

uint64_t number_at(const std::string& bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; at + count <= bytes.size() && i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

// The files of a zip are given the checksums that they would need.
void repair_zip(std::string& input) {
  constexpr size_t kEntry = 46, kLocal = 30;
  for (size_t entry = input.find("PK\1\2"); entry != std::string::npos && entry + kEntry <= input.size(); entry = input.find("PK\1\2", entry + kEntry)) {
    const uint64_t bytes = number_at(input, entry + 20, 4);
    const uint64_t local = number_at(input, entry + 42, 4);
    if (local + kLocal > input.size()) continue;
    const uint64_t begin = local + kLocal + number_at(input, local + 26, 2) + number_at(input, local + 28, 2);
    if (begin > input.size() || bytes > input.size() - begin) continue;
    const auto sum = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(input.data() + begin), static_cast<uInt>(bytes)));
    for (const size_t place : {entry + 16, static_cast<size_t>(local) + 14}) {
      for (size_t i = 0; i < 4; ++i) input[place + i] = static_cast<char>(sum >> (8 * i));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::array readers{fuzz::Reader{"safetensors", [](std::string_view input) { nn::read_safetensors(written(input)); }},
                           fuzz::Reader{"torch", [](std::string_view input) { nn::read_torch_file(written(input)); }, repair_zip},
                           fuzz::Reader{"network", [](std::string_view input) { nn::read_graph(nn::parse_network_json(std::string(input))); }},
                           fuzz::Reader{"manifest", [](std::string_view input) { train::read_manifest(written(input)); }}};
  return fuzz::run(argc, argv, readers);
}
