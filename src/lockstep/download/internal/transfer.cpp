#include "lockstep/download/internal/transfer.h"

#include <array>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <memory>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/base/version.h"
#include "lockstep/download/internal/curl_library.h"

namespace lockstep::download {
namespace {

constexpr long kMostRedirections = 5;
constexpr long kConnectSeconds = 30;
constexpr long kSilentSeconds = 60;  // after which a server that sends nothing is given up
constexpr long kWholeFile = 200, kRestOfFile = 206, kNothingFollows = 416;

// libcurl of another distribution was built for that distribution's place.
constexpr std::array kCertificates{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                   "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

class Request {
 public:
  Request(OpenFile& part, const PublishedFile& file, const Options& options, Transfer& transfer)
      : part_(part),
        file_(file),
        options_(options),
        transfer_(transfer),
        handle_(curl_.init(), curl_.cleanup) {
    if (handle_ == nullptr) throw Error(ErrorCode::out_of_memory, "libcurl has no memory for a request");
    // libcurl copies texts, but not this buffer.
    curl_.set(handle_.get(), CURLOPT_ERRORBUFFER, reason_.data());
    choose_server();
    choose_limits();
    curl_.set(handle_.get(), CURLOPT_WRITEFUNCTION, &Request::take);
    curl_.set(handle_.get(), CURLOPT_WRITEDATA, this);
    curl_.set(handle_.get(), CURLOPT_XFERINFOFUNCTION, &Request::look);
    curl_.set(handle_.get(), CURLOPT_XFERINFODATA, this);
    curl_.set(handle_.get(), CURLOPT_NOPROGRESS, 0L);
  }

  void make() {
    const CURLcode code = curl_.perform(handle_.get());
    if (failure_) std::rethrow_exception(failure_);
    const long status = number(CURLINFO_RESPONSE_CODE);
    // The file is complete already, or not that of the server: its hash decides.
    if (status == kNothingFollows && continues_from_ > 0) return;
    if (code != CURLE_OK) throw failed(code, status);
    if (status != kWholeFile && status != kRestOfFile)
      throw refused("it answers with status " + std::to_string(status));
  }

 private:
  void choose_server() {
    const bool secret = file_.address.starts_with("https://");
    curl_.set(handle_.get(), CURLOPT_URL, file_.address.c_str());
    allow_protocols(secret);
    curl_.set(handle_.get(), CURLOPT_FOLLOWLOCATION, 1L);
    curl_.set(handle_.get(), CURLOPT_MAXREDIRS, kMostRedirections);
    curl_.set(handle_.get(), CURLOPT_SSL_VERIFYPEER, 1L);
    curl_.set(handle_.get(), CURLOPT_SSL_VERIFYHOST, 2L);
    std::error_code none;
    if (std::filesystem::exists(kCertificates.front(), none)) return;
    for (const char* place : kCertificates) {
      if (!std::filesystem::exists(place, none)) continue;
      curl_.set(handle_.get(), CURLOPT_CAINFO, place);
      return;
    }
  }

  // libcurl before 7.85 only knows CURLOPT_PROTOCOLS and CURLOPT_REDIR_PROTOCOLS, which newer headers call
  // deprecated.
  void allow_protocols(bool secret) {
    const bool knows =
        curl_.set(handle_.get(), CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
        curl_.set(handle_.get(), CURLOPT_REDIR_PROTOCOLS_STR, secret ? "https" : "http,https") == CURLE_OK;
    if (knows) return;
    constexpr auto kProtocols = static_cast<CURLoption>(181), kRedirections = static_cast<CURLoption>(182);
    curl_.set(handle_.get(), kProtocols, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    curl_.set(handle_.get(), kRedirections,
              static_cast<long>(secret ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS));
  }

  void choose_limits() {
    continues_from_ = transfer_.bytes;
    const std::string agent = "lockstep/" + std::string(version());
    curl_.set(handle_.get(), CURLOPT_USERAGENT, agent.c_str());
    curl_.set(handle_.get(), CURLOPT_NOSIGNAL, 1L);
    curl_.set(handle_.get(), CURLOPT_FAILONERROR, 1L);
    curl_.set(handle_.get(), CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_.set(handle_.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_.set(handle_.get(), CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
    // Not CURLOPT_RESUME_FROM_LARGE, which fails if the server sends the whole file.
    const std::string range = std::to_string(continues_from_) + "-";
    if (continues_from_ > 0) curl_.set(handle_.get(), CURLOPT_RANGE, range.c_str());
  }

  long number(CURLINFO what) const {
    long value = 0;
    curl_.get_info(handle_.get(), what, &value);
    return value;
  }

  static size_t take(char* bytes, size_t one, size_t count, void* self) {
    auto& request = *static_cast<Request*>(self);
    try {
      request.write({bytes, one * count});
      return one * count;
    } catch (...) {
      request.failure_ = std::current_exception();
      return 0;  // fewer bytes than it gave end the transfer
    }
  }

  static int look(void* self, curl_off_t all, curl_off_t, curl_off_t, curl_off_t) {
    auto& request = *static_cast<Request*>(self);
    request.rest_bytes_ = all;
    return request.options_.stop.stop_requested() ? 1 : 0;
  }

  void write(std::string_view bytes) {
    if (!begun_) begin();
    if (transfer_.bytes + static_cast<int64_t>(bytes.size()) > file_.most_bytes)
      throw refused("it sends more than the " + as_bytes(file_.most_bytes) + " that this file may have");
    part_.write_at(transfer_.bytes, bytes);
    transfer_.bytes += static_cast<int64_t>(bytes.size());
    if (!options_.progress) return;
    const int64_t before = transfer_.continued ? continues_from_ : 0;
    options_.progress({transfer_.bytes, rest_bytes_ > 0 ? before + rest_bytes_ : 0});
  }

  // The first bytes of the body: the rest of the file, or all of it.
  void begin() {
    begun_ = true;
    transfer_.continued = continues_from_ > 0 && number(CURLINFO_RESPONSE_CODE) == kRestOfFile;
    if (transfer_.continued) return;
    transfer_.bytes = 0;
    if (::ftruncate(part_.get(), 0) != 0) throw errno_error(errno, "write", part_.path().string());
  }

  Error refused(const std::string& why) const {
    return {ErrorCode::communication, "cannot download \"" + file_.address + "\": " + why, hint()};
  }

  Error failed(CURLcode code, long status) const {
    if (options_.stop.stop_requested())
      return {ErrorCode::cancelled, "stopped while \"" + file_.address + "\" was downloaded",
              "repeat the command to continue"};
    if (code == CURLE_HTTP_RETURNED_ERROR)
      return refused("the server answers with status " + std::to_string(status));
    if (code == CURLE_PARTIAL_FILE)
      return {ErrorCode::communication,
              "the download of \"" + file_.address + "\" ended early, after " + as_bytes(transfer_.bytes),
              "repeat the command to continue"};
    return refused(reason_.front() != 0 ? reason_.data() : curl_.error_text(code));
  }

  std::string hint() const {
    return "check the network, its proxy and the address; a copy of the file elsewhere: --mirror ADDRESS";
  }

  const CurlLibrary& curl_ = CurlLibrary::get();
  OpenFile& part_;
  const PublishedFile& file_;
  const Options& options_;
  Transfer& transfer_;
  std::array<char, CURL_ERROR_SIZE> reason_{};
  std::unique_ptr<CURL, decltype(curl_easy_cleanup)*> handle_;
  int64_t continues_from_ = 0;
  int64_t rest_bytes_ = 0;
  bool begun_ = false;
  std::exception_ptr failure_;
};

}  // namespace

void transfer_to(OpenFile& part, const PublishedFile& file, const Options& options, Transfer& transfer) {
  Request(part, file, options, transfer).make();
}

}  // namespace lockstep::download
