// libcurl's functions, found by name in the system's library, which is opened when it is needed: most runs of
// the program download nothing, and libcurl loads about thirty other libraries.
#pragma once

#include <curl/curl.h>

#include "lockstep/base/library_symbol.h"

namespace lockstep::download {

// curl.h has these names as macros that check types, which need the library linked.
#undef curl_easy_setopt
#undef curl_easy_getinfo

class CurlLibrary {
  LibrarySymbol find(const char* name) const;

  void* const library_;

 public:
  /// Opened at the first call, never closed. Throws not_found with the package that contains it; the next
  /// call then tries again.
  static const CurlLibrary& get();

  decltype(curl_global_init)* const global_init = find("curl_global_init");
  decltype(curl_easy_init)* const init = find("curl_easy_init");
  decltype(curl_easy_cleanup)* const cleanup = find("curl_easy_cleanup");
  decltype(curl_easy_setopt)* const set = find("curl_easy_setopt");
  decltype(curl_easy_getinfo)* const get_info = find("curl_easy_getinfo");
  decltype(curl_easy_perform)* const perform = find("curl_easy_perform");
  decltype(curl_easy_strerror)* const error_text = find("curl_easy_strerror");

 private:
  CurlLibrary();
};

}  // namespace lockstep::download
