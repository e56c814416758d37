#include <array>
#include <filesystem>
#include <functional>

#include "lockstep/base/counted.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/command_options.h"
#include "lockstep/cli/exported_network.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/onnx/code.h"
#include "lockstep/onnx/export_onnx.h"

namespace lockstep::cli {
namespace {

std::string shape_text(const onnx::TrainedNetwork& trained) {
  const nn::NetworkInput& input = trained.input;
  if (input.time_steps > 0) return "[batch," + std::to_string(input.channels) + ",time]";
  return "[batch," + std::to_string(input.channels) + "," + std::to_string(input.height) + "," +
         std::to_string(input.width) + "]";
}

// What a caller of the file must know.
std::string onnx_text(const onnx::TrainedNetwork& trained, const onnx::ExportOptions& options) {
  const bool images = trained.input.time_steps == 0;
  std::string input = "input float32 " + shape_text(trained) + ", ";
  input += images ? (trained.input.channels == 1 ? "grey " : "RGB ") : "";
  input += options.normalized_input ? "normalised" : images ? "pixels from 0 to 255" : "sequences";
  return input + "; output " + (options.scores ? "scores" : "logits") + " [batch," +
         std::to_string(trained.input.classes) + (trained.input.labels_time_steps ? ",time]" : "]");
}

std::string write_onnx(const Call& call, Console& console, const std::filesystem::path& path) {
  const auto settings = settings_of<ExportSettings>(call);
  const onnx::ExportOptions options{.fold_batch_norm = settings.fold_batch_norm,
                                    .normalized_input = settings.normalized_input,
                                    .scores = settings.scores};
  const onnx::TrainedNetwork trained = open_exported(call, console, NeedsWeights::yes);
  write_file_atomic(path, onnx::to_onnx(trained, options));
  return onnx_text(trained, options);
}

std::string write_weights(const Call& call, Console& console, const std::filesystem::path& path) {
  const onnx::TrainedNetwork trained = open_exported(call, console, NeedsWeights::yes);
  nn::write_safetensors_atomic(path, trained.state);
  return counted(std::ssize(trained.state), "tensor");
}

std::string write_graph(const Call& call, Console& console, const std::filesystem::path& path) {
  const onnx::TrainedNetwork network = open_exported(call, console, NeedsWeights::no);
  const Json& spec = network.network.spec();
  if (spec.is_null())
    throw Error(ErrorCode::invalid_option, "the network is a C++ module, which has no layer graph");
  write_file_atomic(path, spec.dump(2) + "\n");
  return "a layer graph; lockstep train FOLDER --network " + shell_word(path.string()) + " trains it";
}

template <std::string (*kCode)(const nn::Network& network, const nn::NetworkInput& input)>
std::string write_code(const Call& call, Console& console, const std::filesystem::path& path) {
  const onnx::TrainedNetwork network = open_exported(call, console, NeedsWeights::no);
  write_file_atomic(path, kCode(network.network, network.input));
  return "a module \"Network\"; its weights: lockstep export " + shell_word(call.words.front()) +
         " weights.safetensors";
}

struct Format {
  const char* ending;
  /// Returns what was written, in words.
  std::string (*write)(const Call& call, Console& console, const std::filesystem::path& path);
};
constexpr std::array kFormats{Format{".onnx", write_onnx}, Format{".safetensors", write_weights},
                              Format{".json", write_graph}, Format{".py", write_code<onnx::pytorch_code>},
                              Format{".cpp", write_code<onnx::cpp_code>}};

void refuse_options_of_onnx(const Call& call) {
  for (const char* name : {"fold-batch-norm", "normalized-input", "scores"}) {
    if (call.text_of(name))
      throw Error(ErrorCode::invalid_option, std::string("--") + name + " is for .onnx files",
                  "leave it out, or name a file that ends in .onnx");
  }
}

}  // namespace

int run_export(const Call& call, Console& console) {
  const std::string& path = call.words[1];
  std::vector<std::string> endings;
  for (const Format& format : kFormats) {
    endings.emplace_back(format.ending);
    if (!path.ends_with(format.ending)) continue;
    if (format.write != write_onnx) refuse_options_of_onnx(call);
    const std::string text = format.write(call, console, path);
    console.print(path + ": " + text + "\n");
    return 0;
  }
  throw Error(ErrorCode::invalid_option, "the end of the name \"" + path + "\" does not say what to write",
              "end it in " + join(endings, ", "));
}

}  // namespace lockstep::cli
