#include "lockstep/base/text.h"
#include "lockstep/cli/downloading.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/cli/verbs.h"
#include "lockstep/data/published_data.h"

namespace lockstep::cli {

std::vector<FieldInfo> data_get_fields() { return fields_of<MirrorChoice>(); }

int run_data_get(const Call& call, Console& console) {
  const data::PublishedData& data = data::find_published_data(call.words.front());
  data::PublishedDataOptions options{.folder = call.words.size() > 1 ? call.words[1] : "",
                                     .mirror = settings_of<MirrorChoice>(call).mirror};
  std::filesystem::path folder;
  const int status = run_download(console, [&](const download::Options& how) {
    options.download = how;
    folder = data::get_published_data(data, options);
  });
  if (status != 0) return status;
  console.print(folder.string() + ": " + data.description + "\n  lockstep train " +
                shell_word(folder.string()) + " --test " + shell_word(data.test_file(folder).string()) +
                "\n");
  return 0;
}

}  // namespace lockstep::cli
