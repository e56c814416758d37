#include "lockstep/download/internal/curl_library.h"

#include <string>

#include <dlfcn.h>

#include "lockstep/base/error.h"
#include "lockstep/base/plug_in.h"

namespace lockstep::download {
namespace {

constexpr const char* kFileName = "libcurl.so.4";
constexpr const char* kHint = "install it: apt-get install libcurl4, or the package libcurl of your system";

void* open_library() {
  if (void* library = ::dlopen(find_plug_in(kFileName).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const std::string why = ::dlerror();
  throw Error(ErrorCode::not_found, "cannot open libcurl, which downloads files: " + why, kHint);
}

}  // namespace

LibrarySymbol CurlLibrary::find(const char* name) const {
  void* address = ::dlsym(library_, name);
  if (address == nullptr)
    throw Error(ErrorCode::not_found, "\"" + std::string(kFileName) + "\" has no function " + name, kHint);
  return {address};
}

CurlLibrary::CurlLibrary() : library_(open_library()) {
  if (global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    throw Error(ErrorCode::internal, "libcurl does not start");
}

const CurlLibrary& CurlLibrary::get() {
  static const CurlLibrary library;
  return library;
}

}  // namespace lockstep::download
