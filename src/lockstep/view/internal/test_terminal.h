// A terminal for tests of views, and what was written to it.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <pty.h>
#include <string>
#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "lockstep/view/internal/line.h"
#include "lockstep/view/internal/terminal.h"

namespace lockstep::view::test {

// Sets an environment variable for one test.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~Environment() { set(old_ ? old_->c_str() : nullptr); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void set(const char* value) { value == nullptr ? ::unsetenv(name_) : ::setenv(name_, value, 1); }
  const char* name_;
  std::optional<std::string> old_;
};

using Write = std::function<void(std::FILE* out)>;

// Everything that is written to a terminal of this size.
inline std::string on_terminal(TerminalSize size, const Write& write) {
  int master = -1;
  int slave = -1;
  winsize window{};
  window.ws_col = static_cast<unsigned short>(size.columns);
  window.ws_row = static_cast<unsigned short>(size.rows);
  EXPECT_EQ(::openpty(&master, &slave, nullptr, nullptr, &window), 0);
  std::string text;
  std::thread reader([&] {
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::read(master, buffer.data(), buffer.size())) > 0;)
      text.append(buffer.data(), static_cast<size_t>(got));
  });
  std::FILE* out = ::fdopen(slave, "w");
  write(out);
  std::fclose(out);
  reader.join();
  ::close(master);
  return text;
}

inline std::string in_file(const Write& write) {
  std::FILE* out = std::tmpfile();
  write(out);
  std::string text(static_cast<size_t>(std::ftell(out)), '\0');
  std::rewind(out);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), out), text.size());
  std::fclose(out);
  return text;
}

// Without the sequences that move the cursor or colour text: ESC [ ... letter.
inline std::string without_escapes(const std::string& text) {
  std::string result;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\x1b') {
      result += text[at];
      continue;
    }
    while (at < text.size() && std::isalpha(static_cast<unsigned char>(text[at])) == 0) ++at;
  }
  return result;
}

// The width of every row that was ever on the screen.
inline std::vector<int> widths(const std::string& text) {
  std::string rows = without_escapes(text);
  std::replace(rows.begin(), rows.end(), '\r', '\n');
  std::vector<int> result;
  for (const std::string& line : split(rows, '\n')) result.push_back(width_of(line));
  return result;
}

}  // namespace lockstep::view::test
