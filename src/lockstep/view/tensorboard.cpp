// Event files that TensorBoard reads: records of protobuf messages, of so few kinds that they are written by
// hand.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/seconds.h"
#include "lockstep/base/file.h"
#include "lockstep/base/host.h"
#include "lockstep/record/run_folder.h"
#include "lockstep/view/internal/crc32c.h"
#include "lockstep/view/views.h"

namespace lockstep::view {
namespace {

constexpr auto kFlushInterval = std::chrono::seconds(2);

// Field numbers of tensorflow/core/util/event.proto and framework/summary.proto.
constexpr int kEventWallTime = 1;
constexpr int kEventStep = 2;
constexpr int kEventFileVersion = 3;
constexpr int kEventSummary = 5;
constexpr int kEventSessionLog = 7;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1;
constexpr int kValueSimple = 2;
constexpr int kSessionStatus = 1;
constexpr int kSessionStart = 1;

/// A protobuf message under construction.
class Message {
 public:
  Message& varint(int field, uint64_t value) {
    key(field, 0);
    raw_varint(value);
    return *this;
  }
  Message& float64(int field, double value) {
    key(field, 1);
    little_endian(value);
    return *this;
  }
  Message& float32(int field, float value) {
    key(field, 5);
    little_endian(value);
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    key(field, 2);
    raw_varint(value.size());
    bytes_ += value;
    return *this;
  }
  const std::string& data() const { return bytes_; }

 private:
  void key(int field, int wire_type) { raw_varint(static_cast<uint64_t>(field << 3 | wire_type)); }
  void raw_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  template <class T>
  void little_endian(T value) {
    std::array<char, sizeof(T)> buffer{};
    std::memcpy(buffer.data(), &value, sizeof(T));
    bytes_.append(buffer.data(), buffer.size());
  }

  std::string bytes_;
};

template <class T>
void append_number(std::string& out, T value) {
  std::array<char, sizeof(T)> buffer{};
  std::memcpy(buffer.data(), &value, sizeof(T));
  out.append(buffer.data(), buffer.size());
}

void append_record(std::string& out, std::string_view data) {
  std::string length;
  append_number(length, static_cast<uint64_t>(data.size()));
  out += length;
  append_number(out, masked_crc32c(length));
  out += data;
  append_number(out, masked_crc32c(data));
}

class TensorBoard final : public View {
 public:
  TensorBoard(const std::filesystem::path& run_folder, int64_t attempt) : resumed_(attempt > 0) {
    const std::filesystem::path folder = record::RunPaths{run_folder}.tensorboard();
    make_folders(folder);
    const double now = now_seconds();
    // TensorBoard reads a folder's files in the order of their names.
    const std::string attempt_digits = std::to_string(100000 + attempt).substr(1);
    path_ = folder / ("events.out.tfevents." + std::to_string(static_cast<int64_t>(now)) + "." +
                      attempt_digits + "." + host_name());
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor_ < 0) throw errno_error(errno, "create", path_.string());
    append_record(pending_,
                  Message().float64(kEventWallTime, now).bytes(kEventFileVersion, "brain.Event:2").data());
  }
  ~TensorBoard() override { ::close(descriptor_); }

  void show(const record::Event& event) override {
    if (event.kind == "step") {
      if (std::exchange(resumed_, false) || event.step <= last_step_) forget_from(event);
      last_step_ = event.step;
      add(event, "train/loss", record::number(event, "loss"));
      add(event, "train/accuracy", record::number(event, "accuracy"));
      add(event, "train/learning_rate", record::number(event, "learning_rate"));
      add(event, "train/images_per_second", record::number(event, "images_per_second"));
    } else if (event.kind == "validation") {
      add(event, "validation/loss", record::number(event, "loss"));
      add(event, "validation/accuracy", record::number(event, "accuracy"));
    }
    if (std::chrono::steady_clock::now() - last_flush_ >= kFlushInterval) flush();
  }

  void finish() override { flush(); }

 private:
  // Makes TensorBoard drop what an earlier attempt wrote for this step and later ones.
  void forget_from(const record::Event& event) {
    const std::string session = Message().varint(kSessionStatus, kSessionStart).data();
    append_record(pending_, Message()
                                .float64(kEventWallTime, event.time)
                                .varint(kEventStep, static_cast<uint64_t>(event.step))
                                .bytes(kEventSessionLog, session)
                                .data());
  }

  void add(const record::Event& event, std::string_view tag, double value) {
    if (!event.values.contains(tag.substr(tag.find('/') + 1))) return;
    const std::string summary =
        Message()
            .bytes(kSummaryValue,
                   Message().bytes(kValueTag, tag).float32(kValueSimple, static_cast<float>(value)).data())
            .data();
    append_record(pending_, Message()
                                .float64(kEventWallTime, event.time)
                                .varint(kEventStep, static_cast<uint64_t>(event.step))
                                .bytes(kEventSummary, summary)
                                .data());
  }

  void flush() {
    last_flush_ = std::chrono::steady_clock::now();
    const std::string bytes = std::exchange(pending_, {});
    std::string_view rest = failed_ ? std::string_view() : bytes;
    while (!rest.empty()) {
      const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        failed_ = true;
        throw errno_error(errno, "write", path_.string());
      }
      rest.remove_prefix(static_cast<size_t>(written));
    }
  }

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string pending_;
  std::chrono::steady_clock::time_point last_flush_{};
  bool resumed_;
  int64_t last_step_ = 0;
  bool failed_ = false;
};

}  // namespace

std::unique_ptr<View> tensorboard(const std::filesystem::path& run_folder, int64_t attempt) {
  return std::make_unique<TensorBoard>(run_folder, attempt);
}

}  // namespace lockstep::view
