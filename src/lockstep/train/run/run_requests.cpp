#include "lockstep/train/run/run_requests.h"

#include "lockstep/record/gone_folder.h"

namespace lockstep::train {

void begin_watch(record::RequestWatch& watch, const std::filesystem::path& folder, RunLog& log,
                 Wishes& wishes) {
  watch.begin(
      [&](const record::Request& asked) {
        log.say(answer_to(asked));
        if (const std::string notice = ending_notice(asked); !notice.empty()) log.stopping(notice);
        wishes.grant(asked);
      },
      [&](const std::string& reason) { log.message(reason, "warning"); },
      [&wishes, folder] { wishes.fail(record::gone_folder_error(folder)); });
}

}  // namespace lockstep::train
