#include "lockstep/data/published_data.h"

#include <algorithm>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/base/user_folders.h"
#include "lockstep/io/copy.h"

namespace lockstep::data {
namespace {

bool has_all_files(const PublishedData& data, const std::filesystem::path& folder) {
  return std::all_of(data.data_files.begin(), data.data_files.end(), [&](const char* name) {
    std::error_code none;
    return std::filesystem::is_regular_file(folder / name, none);
  });
}

// Files appear under their names only when they are complete.
void unpack(const PublishedData& data, const std::filesystem::path& archive,
            const std::filesystem::path& folder, const download::Options& options) {
  const auto from = io::open_store((archive / data.archived_folder).string());
  const auto to = io::open_sink(folder.string());
  io::copy_files(*from, *to, {.stop = options.stop});
  if (!has_all_files(data, folder))
    throw Error(ErrorCode::corrupt_data, "\"" + archive.string() + "\" lacks files of " + data.name);
  ::unlink(archive.c_str());
}

}  // namespace

// The hashes of the gzip files are those of torchvision's prototype datasets, whose MD5 are in torchvision;
// CIFAR-10's is of the archive with the MD5 that its page names.
const std::vector<PublishedData>& published_data() {
  static const std::vector<PublishedData> all{
      {"mnist",
       "60,000 and 10,000 grey images of 28x28 pixels: 10 handwritten digits",
       "https://ossci-datasets.s3.amazonaws.com/mnist/",
       {{"train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
         9'912'422},
        {"train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
         28'881},
        {"t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
         4'542},
        {"t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
         1'648'877}},
       "",
       {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte.gz"}},
      {"fashion-mnist",
       "60,000 and 10,000 grey images of 28x28 pixels: 10 kinds of clothes",
       "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
       {{"train-images-idx3-ubyte.gz", "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
         26'421'880},
        {"train-labels-idx1-ubyte.gz", "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
         29'515},
        {"t10k-labels-idx1-ubyte.gz", "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
         5'148},
        {"t10k-images-idx3-ubyte.gz", "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
         4'422'102}},
       "",
       {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte.gz"}},
      {"cifar10",
       "50,000 and 10,000 colour images of 32x32 pixels: 10 kinds of animals and vehicles",
       "https://www.cs.toronto.edu/~kriz/",
       {{"cifar-10-binary.tar.gz", "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
         170'052'171}},
       "cifar-10-batches-bin",
       {"batches.meta.txt", "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
        "data_batch_5.bin", "test_batch.bin"}},
  };
  return all;
}

std::filesystem::path PublishedData::cache_folder() const {
  const std::filesystem::path caches = lockstep_cache_folder();
  if (caches.empty())
    throw Error(ErrorCode::invalid_option, "there is no folder for downloaded data",
                "name a folder, or set LOCKSTEP_CACHE to one, with its whole path");
  return caches / "data" / name;
}

std::filesystem::path PublishedData::test_file(const std::filesystem::path& folder) const {
  return folder / data_files.back();
}

int64_t PublishedData::download_bytes() const {
  int64_t bytes = 0;
  for (const PublishedDataFile& file : files) bytes += file.bytes;
  return bytes;
}

const PublishedData& find_published_data(std::string_view name) {
  const auto& all = published_data();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const PublishedData& data) { return data.name == name; });
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const PublishedData& data : all) names.emplace_back(data.name);
  const std::string near = nearest(name, names);
  throw Error(ErrorCode::invalid_option, "there is no published data \"" + std::string(name) + "\"",
              near.empty() ? "known are " + join(names, ", ") : "did you mean " + near + "?");
}

std::filesystem::path get_published_data(const PublishedData& data, const PublishedDataOptions& options) {
  std::filesystem::path folder = options.folder.empty() ? data.cache_folder() : options.folder;
  const bool archived = *data.archived_folder != 0;
  if (archived && has_all_files(data, folder)) return folder;
  download::Options downloading = options.download;
  int64_t before = 0;
  for (const PublishedDataFile& file : data.files) {
    if (options.download.progress)
      downloading.progress = [&](const download::Progress& progress) {
        options.download.progress({before + progress.bytes, data.download_bytes()});
      };
    const std::string address = std::string(data.address) + file.name;
    const download::PublishedFile published{
        .address = options.mirror.empty() ? address : download::on_mirror(options.mirror, address),
        .sha256 = file.sha256,
        .most_bytes = file.bytes};
    download::fetch(published, folder / file.name, downloading);
    before += file.bytes;
  }
  if (archived) unpack(data, folder / data.files.front().name, folder, options.download);
  return folder;
}

}  // namespace lockstep::data
