// The readers of weights, options and run folders.
#include <array>
#include <cstdio>
#include <fstream>

#include <ATen/Functions.h>
#include <zlib.h>

#include "driver.h"
#include "lockstep/base/error.h"
#include "lockstep/base/hash.h"
#include "lockstep/record/confusion_file.h"
#include "lockstep/record/event_log.h"
#include "lockstep/nn/graph.h"
#include "lockstep/nn/safetensors.h"
#include "lockstep/nn/torch_file.h"
#include "lockstep/train/loop/checkpoint.h"
#include "lockstep/train/run/run_files.h"
#include "lockstep/view/report.h"
#include "lockstep/view/trials.h"
#include "lockstep/view/views.h"

using namespace lockstep;

namespace {

std::filesystem::path written(std::string_view bytes, const std::filesystem::path& path = "input") {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

uint64_t number_at(const std::string& bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; at + count <= bytes.size() && i-- > 0;)
    value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}

// The files of a zip archive are given correct checksums.
void repair_zip(std::string& input) {
  constexpr size_t kEntry = 46, kLocal = 30;
  for (size_t entry = input.find("PK\1\2"); entry != std::string::npos && entry + kEntry <= input.size();
       entry = input.find("PK\1\2", entry + kEntry)) {
    const uint64_t bytes = number_at(input, entry + 20, 4);
    const uint64_t local = number_at(input, entry + 42, 4);
    if (local + kLocal > input.size()) continue;
    const uint64_t begin = local + kLocal + number_at(input, local + 26, 2) + number_at(input, local + 28, 2);
    if (begin > input.size() || bytes > input.size() - begin) continue;
    const auto sum = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(input.data() + begin), static_cast<uInt>(bytes)));
    for (const size_t place : {entry + 16, static_cast<size_t>(local) + 14}) {
      for (size_t i = 0; i < 4; ++i) input[place + i] = static_cast<char>(sum >> (8 * i));
    }
  }
}

void read_options(std::string_view input) {
  train::Options options;
  try {
    read_json(parse_json(input), options, "the input");
  } catch (const JsonError& error) {
    throw Error(ErrorCode::corrupt_data, error.what());
  }
}

// The input is the manifest of a checkpoint whose tensors are good.
void read_checkpoint(std::string_view input) {
  const nn::NamedTensors weights{{"weight", at::zeros({2})}};
  const Json fingerprint{{"network", "mlp"}, {"images", 100}, {"arithmetic", "avx2"}};
  static const std::filesystem::path folder =
      train::write_checkpoint("run", {.state = {.step = 7, .finished = "finished"},
                                      .fingerprint = fingerprint,
                                      .weights = weights,
                                      .optimizer = weights});
  written(input, folder / "manifest.json");
  train::weights_doubt("run/model.safetensors", weights);
  const auto checkpoint = train::last_checkpoint("run");
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    train::read_tensors(*checkpoint, file);
  train::compare_fingerprints(checkpoint->fingerprint, fingerprint);
}

void repair_manifest(std::string& input) {
  try {
    Json manifest = parse_json(input);
    if (!manifest.is_object()) return;
    manifest.erase("hash");
    manifest["hash"] = as_hex(hash_of(manifest.dump(-1, ' ', false, Json::error_handler_t::replace)));
    input = manifest.dump(-1, ' ', false, Json::error_handler_t::replace);
  } catch (const JsonError&) {
  }
}

// Read by everything that shows its content.
void read_log(std::string_view input) {
  static std::FILE* const nowhere = std::fopen("/dev/null", "w");
  std::filesystem::remove_all("run");
  std::filesystem::create_directories("run/events");
  written(input, "run/events/rank-0-attempt-0.jsonl");
  const std::vector<record::Event> events = record::read_events("run");
  view::Trials trials(nowhere);
  for (const auto& view :
       {view::progress(nowhere, {.plot = true, .timing = true, .verbose = true, .averages = true}),
        view::svg_curves("run"), view::tensorboard("run", 0)}) {
    for (const record::Event& event : events) view->show(event);
    view->finish();
  }
  for (const record::Event& event : events) trials.show("one", event);
  view::text_curves(events, 60, 12);
  view::Report report;
  report.run = "run";
  report.events = events;
  view::report_page(report);
}

void read_confusions(std::string_view input) {
  std::filesystem::create_directories("run");
  written(input, "run/confusion.csv");
  view::Report report;
  report.run = "run";
  report.kept = record::read_confusion("run");
  view::report_page(report);
}

}  // namespace

int main(int argc, char** argv) {
  const std::array readers{
      fuzz::Reader{"safetensors", [](std::string_view input) { nn::read_safetensors(written(input)); }},
      fuzz::Reader{"torch", [](std::string_view input) { nn::read_torch_file(written(input)); }, repair_zip},
      fuzz::Reader{
          "network",
          [](std::string_view input) { nn::read_graph(nn::parse_network_json(std::string(input))); }},
      fuzz::Reader{"manifest", [](std::string_view input) { train::read_manifest(written(input)); }},
      fuzz::Reader{"options", read_options},
      fuzz::Reader{"checkpoint", read_checkpoint, repair_manifest},
      fuzz::Reader{"events", read_log},
      fuzz::Reader{"confusion", read_confusions}};
  return fuzz::run(argc, argv, readers);
}
