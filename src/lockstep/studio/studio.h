// Studio: the pages in which people see, draw and steer their runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/describe.h"

namespace lockstep::studio {

/// A command of the program, for a form.
struct CommandForm {
  std::string name;  ///< "cluster create"
  std::vector<FieldInfo> fields;
};

struct Setup {
  std::vector<std::filesystem::path> roots;  ///< folders of runs
  std::string address = "127.0.0.1";         ///< where it listens
  uint16_t port = 0;                         ///< 0: any free one
  std::filesystem::path program;             ///< the program lockstep, which does the work that pages start
  std::string version;
  std::vector<CommandForm> commands;  ///< that the program has; pages of others are not shown
};

/// Listens and answers until it is destroyed. It writes nothing into a run but requests.
class Studio {
 public:
  /// Throws io if it cannot listen, and not_found for a root that is no folder.
  explicit Studio(Setup setup);
  ~Studio();
  Studio(const Studio&) = delete;
  Studio& operator=(const Studio&) = delete;

  uint16_t port() const;
  std::string address_with_token() const;
  /// See Gate.
  std::string address_with_code();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::studio
