#include "lockstep/cli/trained_model.h"

#include "lockstep/base/error.h"
#include "lockstep/data/picture_set.h"
#include "lockstep/device/inventory.h"
#include "lockstep/io/run_folder.h"

namespace lockstep::cli {
namespace {

// A weights file says nothing of classes and normalisation; the run folder around it does.
std::filesystem::path run_folder_of(const std::filesystem::path& file) {
  for (auto folder = std::filesystem::absolute(file).parent_path();; folder = folder.parent_path()) {
    if (std::filesystem::exists(io::RunPaths{folder}.options())) return folder;
    if (folder == folder.parent_path()) break;
  }
  throw Error(ErrorCode::not_found, "cannot use \"" + file.string() + "\": it lies in no run folder, so its network and classes are not known",
              "name a run folder of lockstep train");
}

}  // namespace

train::Model open_model(const std::filesystem::path& path, Weights weights) {
  if (!std::filesystem::is_regular_file(path)) return train::model_of_run(path, enum_names(weights)[static_cast<size_t>(weights)]);
  train::Model model = train::model_of_run(run_folder_of(path));
  model.weights = path;
  return model;
}

data::Dataset readable_samples(const data::Source& source, const train::Model& model, const train::Options& options, Console& console) {
  data::Dataset dataset = source.dataset;
  std::vector<data::BadSample> left_out = source.skipped;
  if (options.on_bad_sample == data::OnBadSample::skip && dataset.store().kind() == data::SampleKind::picture) {
    auto [good, bad] = data::without_bad_samples(dataset, train::format_of(model), device::inspect().cores);
    dataset = std::move(good);
    left_out.insert(left_out.end(), bad.begin(), bad.end());
  }
  for (const data::BadSample& sample : left_out) console.note("left out \"" + sample.source + "\": " + sample.reason + "\n");
  return dataset;
}

}  // namespace lockstep::cli
