#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/base/test_folder.h"
#include "lockstep/view/internal/crc32c.h"
#include "lockstep/view/internal/synthetic_run.h"
#include "lockstep/view/views.h"

namespace lockstep::view {
namespace {

TEST(Crc32c, KnownVectors) {
  // RFC 3720, appendix B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising += static_cast<char>(i);
  EXPECT_EQ(crc32c(rising), 0x46dd794eU);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
}

template <class T>
T number_at(const std::string& bytes, size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

std::vector<std::string> records_of(const std::string& bytes) {
  std::vector<std::string> records;
  for (size_t at = 0; at < bytes.size();) {
    const auto length = number_at<uint64_t>(bytes, at);
    EXPECT_EQ(number_at<uint32_t>(bytes, at + 8), masked_crc32c(bytes.substr(at, 8)));
    records.push_back(bytes.substr(at + 12, length));
    EXPECT_EQ(number_at<uint32_t>(bytes, at + 12 + length), masked_crc32c(records.back()));
    at += 16 + length;
  }
  return records;
}

TEST(TensorBoard, FilesAreWholeRecords) {
  const lockstep::test::TemporaryFolder temporary;
  const std::filesystem::path& run = temporary.path();
  {
    const auto view = tensorboard(run, 0);
    for (const record::Event& event : synthetic_events()) view->show(event);
    view->finish();
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(run / "tensorboard"))
    files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1U);
  EXPECT_THAT(files[0].filename().string(), testing::StartsWith("events.out.tfevents."));
  const auto records = records_of(read_file(files[0]));
  ASSERT_EQ(records.size(), 1 + 568 * 4 + 8 * 2);
  EXPECT_THAT(records[0], testing::HasSubstr("brain.Event:2"));
  // wall_time: field 1, 8 bytes; step: field 2, varint.
  EXPECT_EQ(records[1][0], 0x09);
  EXPECT_NEAR(number_at<double>(records[1], 1), 1.7e9, 1);
  EXPECT_EQ(records[1].substr(9, 2), std::string("\x10\x01"));
  EXPECT_THAT(records[1], testing::HasSubstr("train/loss"));
}

}  // namespace
}  // namespace lockstep::view
