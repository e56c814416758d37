// The options of the commands that the engine runs. The light program reads and lists them too, so nothing
// here may link LibTorch.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/describe.h"
#include "lockstep/comm/communicator_kind.h"

namespace lockstep::cli {

/// Switches the output of a command to JSON.
struct JsonOutput {
  bool json = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Output");
    field("json", self.json, "print JSON instead of text");
  };
};

/// How ranks that a launcher started reach each other.
struct RankSettings {
  comm::CommunicatorKind communicator = comm::CommunicatorKind::auto_;
  int64_t join_timeout = 300;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Ranks");
    field("communicator", self.communicator,
          "how ranks that a launcher started communicate: through shared memory, or over the network "
          "(gloo); auto: memory on one machine, gloo on several");
    field("join-timeout", self.join_timeout,
          "maximum time that ranks wait for each other at the start, in seconds", between(1, 86'400));
  };
};

/// A file of training options.
struct ConfigFile {
  std::string config;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Options from a file");
    field("config", self.config,
          "JSON file of options by these names, e.g. {\"max-epochs\": 5}; the command line overrides it");
  };
};

/// Where studio listens.
struct StudioSettings {
  int64_t port = 0;
  std::string listen = "127.0.0.1";
  bool no_browser = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Studio");
    field("port", self.port, "port to listen at; 0: 8761, or another one if that is in use",
          between(0, 65'535));
    field("listen", self.listen,
          "address to listen at; with another one than this machine's own (127.0.0.1), everybody on the "
          "network "
          "can read what is sent");
    field("no-browser", self.no_browser, "print the address, and do not open a browser");
  };
};

/// The weights that evaluate and predict use.
struct ModelChoice {
  std::string weights = "last";
  std::string classes;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Model");
    field("weights", self.weights,
          "weights to use; for a run folder: last (after the last step) or best (of all validations); for a "
          "network: a file, "
          "safetensors or written by torch.save");
    field("classes", self.classes,
          "file with the class names of a network, one per line, in the order of its outputs; empty: their "
          "numbers");
  };
};

/// How evaluate and predict compute.
struct ExactChoice {
  bool exact = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Arithmetic");
    field("exact", self.exact,
          "compute batch norms as layers, with the run's mini-batches and shards unless they are given, so "
          "that scores have exactly the bits of validation during training; by default batch norms become "
          "part of the convolutions before them, which is faster and changes scores by rounding");
  };
};

/// Output of evaluate.
struct MistakesOutput {
  std::string mistakes;
  int64_t mistakes_shown = 10;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Output");
    field("mistakes", self.mistakes,
          "write every misclassified sample to this CSV file, highest score of a wrong answer first, with "
          "the columns of lockstep predict");
    field("mistakes-shown", self.mistakes_shown, "maximum number of misclassified samples to print",
          between(0, 1e6));
  };
};

enum class PredictionFormat { auto_, csv, json, safetensors };
constexpr std::array<const char*, 4> enum_names(PredictionFormat) {
  return {"auto", "csv", "json", "safetensors"};
}

struct PredictionOutput {
  std::string layer;
  std::string output;
  PredictionFormat format = PredictionFormat::auto_;
  int64_t top = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Output");
    field("layer", self.layer,
          "write the output of this layer for each sample, instead of labels; lockstep network show lists a "
          "network's layers");
    field("output", self.output, "file to write (default: standard output)");
    field("format", self.format,
          "auto: JSON when --output ends in .json, else CSV; with --layer CSV when it ends in .csv, "
          "safetensors when it ends in .safetensors or has no ending");
    field("top", self.top,
          "write this number of classes with the highest scores for each sample, in place of the scores of "
          "all; 0: all",
          between(0, 1e6));
  };
};

/// What `layer show` shows, beside the model's options.
struct LayerShowOutput {
  std::string layer;
  int64_t sample = 0;
  std::string output;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Layer");
    field("layer", self.layer,
          "name of the layer, as lockstep network show lists it (default: the first one)");
    field("sample", self.sample, "number of the sample in the data, counted from 0", between(0, 1e15));
    field("output", self.output, "also write all maps as one grey picture to this PNG file");
  };
};

/// Which samples `data show` shows.
struct DataChoice {
  int64_t samples = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Samples");
    field("samples", self.samples,
          "with --json: this number of small images of each class, evenly spaced in the data",
          between(0, 100));
  };
};

/// A report of a run.
struct ReportOptions {
  std::string weights = "last";
  std::string output;
  int64_t images = 24;
  std::vector<std::string> trials{};
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Report");
    field("weights", self.weights, "weights to use: last (after the last step) or best (of all validations)");
    field("output", self.output, "file to write (default: report.html in the folder)");
    field("images", self.images, "maximum number of mistakes to show, worst first", between(0, 1000));
    field("trials", self.trials,
          "of a sweep: numbers of the trials to compare and to show in full, separated by commas; empty: the "
          "best "
          "five");
  };
};

/// Of the process that trains trials on threads.
struct SweepTrialsChoice {
  int64_t memory = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Trials");
    field("memory", self.memory,
          "bytes that trials may use together, or on each GPU; 0: most of what is free", between(0, 1e18));
  };
};

/// At the end of training.
struct ReportSwitch {
  bool report = false;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Report");
    field("report", self.report, "write report.html into the run folder at the end, like lockstep report");
  };
};

/// What export writes. The number of classes and the sequence are for networks without a run.
struct ExportSettings {
  bool fold_batch_norm = false;
  bool normalized_input = false;
  bool scores = false;
  std::string sequence;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("ONNX");
    field("fold-batch-norm", self.fold_batch_norm,
          "make batch norms a part of the convolution or linear layer before them");
    field(
        "normalized-input", self.normalized_input,
        "leave the normalisation out, so that the caller of the file must normalise the input (default: the "
        "file takes pixels from 0 to 255)");
    field("scores", self.scores, "end with a softmax, so that the output is the scores that predict writes");
    field("Sequences");
    field("sequence", self.sequence,
          "channels and time steps of a network for sequences, CxT, such as 12x29 (default: those that a "
          "built-in network was made for)");
  };
};

/// Where import writes, and what the file leaves open.
struct ImportSettings {
  std::string output;
  std::string image_size = "auto";
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Import");
    field("output", self.output,
          "layer graph to write, NAME.json; the weights are written beside it as NAME.safetensors (default: "
          "the "
          "name of the ONNX file, in the working folder)");
    field(
        "image-size", self.image_size,
        "height and width of the images in pixels, HxW, for a file that leaves them open; auto: those of the "
        "file");
  };
};

enum class InputColor { auto_, grey, rgb };
constexpr std::array<const char*, 3> enum_names(InputColor) { return {"auto", "grey", "rgb"}; }

struct InputChoice {
  std::string image_size = "auto";
  InputColor color = InputColor::auto_;
  std::string sequence;
  int64_t classes = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Input (a run folder defines its own)");
    field("image-size", self.image_size,
          "height and width of the images in pixels, HxW; auto: the size that the network was made for");
    field("color", self.color,
          "number of colour channels, one or three; auto: the number that the network was made for");
    field("sequence", self.sequence,
          "use sequences instead of images: channels and time steps of the longest one, CxT, such as 12x29");
    field("classes", self.classes, "number of classes; 0: the number that the network was made for",
          between(0, 1e6));
  };
};

/// Whether `network show` measures.
struct TimeChoice {
  int64_t time = 0;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Time");
    field("time", self.time,
          "measure how long each layer takes in a step, forward and backward, with this number of samples on "
          "one core; 0: no",
          between(0, 4096));
  };
};

/// Options of the launcher.
struct RunSettings {
  int64_t ranks = 0;
  int64_t max_restarts = 0;
  std::string tee;
  std::string hosts;
  std::string program;
  std::vector<std::string> pass;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Ranks");
    field("ranks", self.ranks, "number of processes; 0: one per core, with --hosts one per slot",
          between(0, 1024));
    field("max-restarts", self.max_restarts,
          "times to start all ranks again after one was lost; training then continues from its checkpoint",
          between(0, 1'000'000));
    field("tee", self.tee,
          "folder, on each rank's machine, for a log of each rank's output (rank-0.log, rank-1.log, ...), in "
          "addition to what is shown; empty: none");
    field("Several machines");
    field(
        "hosts", self.hosts,
        "file of the machines to start ranks on by ssh, one on each line: HOST [slots=N] [address=A]; empty: "
        "this machine");
    field("program", self.program, "the program lockstep on the hosts; empty: at the path of this one");
    field("pass", self.pass,
          "names of variables to pass to the ranks on the hosts, separated by commas, besides LOCKSTEP_*, "
          "NCCL_* "
          "and GLOO_*");
  };
};

/// Options of bench scaling besides those of its runs.
struct ScalingOptions {
  std::vector<int64_t> workers{1, 2, 4};
  double reach = 0.95;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Scaling");
    field("workers", self.workers, "numbers of workers to train with; the runs follow one another",
          between(1, 4096));
    field("reach", self.reach, "smoothed training accuracy; the table shows the time to reach it",
          between(0, 1));
  };
};

/// Options of bench-limits.
struct LimitChoice {
  std::string only;
  static constexpr auto describe = [](auto& self, auto&& field) {
    field("Limits");
    field("only", self.only, "comma-separated list of the limits to measure (default: all)");
  };
};

std::vector<FieldInfo> operator+(std::vector<FieldInfo> fields, const std::vector<FieldInfo>& more);

/// Every training option, and --config.
std::vector<FieldInfo> training_fields();

/// Whether this training option decides where and how inference runs.
bool is_inference_option(std::string_view name);

/// Whether this training option describes the input of a network with --weights FILE.
bool is_input_option(std::string_view name);

}  // namespace lockstep::cli
