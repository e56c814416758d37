#include "lockstep/studio/exchange.h"

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/hash.h"
#include "lockstep/base/regular_file.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/graph.h"
#include "lockstep/nn/weights_file.h"
#include "lockstep/studio/designer.h"
#include "lockstep/studio/form.h"
#include "lockstep/studio/training.h"

namespace lockstep::studio {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostNetwork = int64_t{16} << 20;
constexpr int64_t kMostExported = int64_t{2} << 30;
constexpr size_t kMostFileName = 200;
constexpr auto kImportLimit = std::chrono::seconds(120);

fs::path folder_below_root(const Setup& setup, const char* name) {
  return fs::absolute(setup.roots.front()).lexically_normal() / name;
}

// In exports/, and nowhere else.
fs::path exported_path(const std::string& name, const Setup& setup) {
  const bool is_name = !name.empty() && name.size() <= kMostFileName && name.find('/') == std::string::npos &&
                       name.find('\0') == std::string::npos && !name.starts_with('.') &&
                       !name.starts_with('-');
  if (!is_name)
    throw Error(ErrorCode::invalid_option, quote(name) + " is no name of a file",
                "name it without folders, such as network.onnx");
  return folder_below_root(setup, "exports") / name;
}

Json weights_json(const std::string& path) {
  const nn::SafetensorsFile file = nn::read_weights(path);
  Json tensors = Json::object();
  for (const auto& [name, tensor] : file.tensors) tensors[name] = tensor.sizes().vec();
  return {{"weights", path}, {"tensors", tensors}, {"network", nn::builtin_network_of(file.tensors)}};
}

Json graph_json(const fs::path& path) {
  return drawing_of(nn::parse_network_json(read_file(path, kMostNetwork)));
}

// The same file is imported once.
Json imported_json(const std::string& path, const Parts& parts) {
  const fs::path folder = folder_below_root(parts.setup, "networks");
  make_folders(folder);
  const std::string hash = as_hex(hash_of(read_file(path, kMostExported))).substr(0, 8);
  const fs::path graph = folder / (fs::path(path).stem().string() + "-" + hash + ".json");
  if (!fs::exists(graph))
    parts.commands.output_of({"import", as_argument(path), "--output=" + graph.string()}, kImportLimit);
  Json json = graph_json(graph);
  json.update(weights_json(fs::path(graph).replace_extension(".safetensors").string()));
  return json;
}

}  // namespace

std::vector<std::string> export_words(const Json& body, const Parts& parts, Files files) {
  const fs::path file = exported_path(text_in(body, "word"), parts.setup);
  const std::string name = text_in(body, "name", "network");
  const std::string what = body.contains("network") ? network_word(body["network"], name, parts.setup, files)
                                                    : parts.runs.folder_of(text_in(body, "id")).string();
  if (files == Files::written) make_folders(file.parent_path());
  std::vector<std::string> words{"export", as_argument(what), file.string()};
  for (std::string& word : option_words(body.value("options", Json::object()),
                                        form_called(parts.setup, "export").fields, {}, "export"))
    words.push_back(std::move(word));
  return words;
}

std::vector<std::string> network_show_words(const Json& body, const Setup& setup, Files files) {
  if (!body.contains("network")) throw Error(ErrorCode::invalid_option, "the request lacks \"network\"");
  const std::string network = network_word(body["network"], text_in(body, "name", "network"), setup, files);
  std::vector<std::string> words{"network", "show", as_argument(network)};
  for (std::string& word : option_words(body.value("options", Json::object()),
                                        form_called(setup, "network show").fields, {"json"}, "network show"))
    words.push_back(std::move(word));
  words.emplace_back("--json");
  return words;
}

Response exported_file(const std::string& name, const Setup& setup) {
  return {.type = "application/octet-stream",
          .body = read_regular_file(exported_path(name, setup), kMostExported),
          .headers = {{"Content-Disposition", "attachment"}}};
}

Json open_file(const std::string& path, const Parts& parts) {
  const std::string end = lower(fs::path(path).extension().string());
  const std::string name = fs::path(path).stem().string();
  if (!fs::is_regular_file(path))
    throw Error(ErrorCode::not_found, "there is no file " + quote(path),
                "name a file on the machine of studio");
  if (end == ".onnx") {
    Json json = imported_json(path, parts);
    json["name"] = name;
    return json;
  }
  if (end != ".json") return weights_json(path);
  Json json = graph_json(path);
  json["name"] = name;
  return json;
}

}  // namespace lockstep::studio
