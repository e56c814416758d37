#include "lockstep/nn/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>
#include <unistd.h>

#include "lockstep/base/file.h"
#include "lockstep/base/seed.h"
#include "lockstep/nn/internal/testing.h"

namespace lockstep::nn {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Safetensors : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  /// A file with this header and so many bytes of data.
  std::string with_header(const std::string& header, size_t data_bytes = 0) const {
    const uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + header + std::string(data_bytes, '\1');
  }

  SafetensorsFile read_bytes(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    return read_safetensors(path_);
  }

  std::string complaint_of(const std::string& bytes) const {
    return error_of([&] { read_bytes(bytes); });
  }

  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("lockstep_safetensors_test_" + std::to_string(::getpid()));
};

NamedTensors every_type() {
  NamedTensors tensors;
  const at::Tensor numbers = torch::arange(15).reshape({3, 5});
  for (const at::ScalarType type : {at::kByte, at::kHalf, at::kDouble, at::kFloat, at::kBFloat16, at::kLong,
                                    at::kInt, at::kShort, at::kChar})
    tensors.emplace_back(c10::toString(type), numbers.to(type));
  tensors.emplace_back("flags", numbers > 7);
  tensors.emplace_back("scalar", torch::tensor(2.5));
  tensors.emplace_back("empty", torch::zeros({0, 4}));
  tensors.emplace_back("strided \"\xC3\xA9\"", numbers.to(at::kFloat).t());
  return tensors;
}

TEST_F(Safetensors, ReadsBackWhatItWrote) {
  const NamedTensors tensors = every_type();
  const Metadata metadata{{"format", "pt"}, {"note", "line\n\"two\""}};
  write_safetensors_atomic(path_, tensors, metadata);
  const SafetensorsFile file = read_safetensors(path_);
  EXPECT_EQ(file.metadata, metadata);
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(file.tensors[i].first, tensors[i].first);
    EXPECT_EQ(file.tensors[i].second.scalar_type(), tensors[i].second.scalar_type()) << tensors[i].first;
    EXPECT_TRUE(torch::equal(file.tensors[i].second, tensors[i].second)) << tensors[i].first;
  }
  EXPECT_FALSE(std::filesystem::exists(path_.string() + ".part"));
}

TEST_F(Safetensors, EqualTensorsGiveEqualFilesAndAlignedData) {
  write_safetensors(path_, every_type());
  const std::string first = read_file(path_);
  write_safetensors(path_, every_type());
  EXPECT_EQ(read_file(path_), first);
  const std::string header = safetensors_header(every_type());
  EXPECT_EQ(header.size() % 8, 0u);
  EXPECT_EQ(first.substr(0, header.size()), header);
  const Json listing = Json::parse(header.substr(8));
  for (const auto& [name, entry] : listing.items()) {
    const std::string dtype = entry["dtype"];
    const int size = dtype == "BOOL" || dtype == "U8" || dtype == "I8" ? 1
                     : dtype.ends_with("16")                           ? 2
                     : dtype.ends_with("32")                           ? 4
                                                                       : 8;
    EXPECT_EQ(entry["data_offsets"][0].get<int>() % size, 0) << name;
  }
}

TEST_F(Safetensors, AFileWithoutTensorsIsAFile) {
  write_safetensors(path_, {});
  EXPECT_TRUE(read_safetensors(path_).tensors.empty());
}

TEST_F(Safetensors, WhatCannotBeWrittenIsNamed) {
  EXPECT_THAT(error_of([&] {
                safetensors_header({{"a", torch::zeros(1)}, {"a", torch::zeros(1)}});
              }),
              HasSubstr("two tensors named \"a\""));
  EXPECT_THAT(error_of([&] {
                safetensors_header({{"a", torch::zeros(1, torch::kComplexFloat)}});
              }),
              HasSubstr("tensor \"a\" has numbers of type ComplexFloat"));
  EXPECT_THAT(error_of([&] { safetensors_header({{"\xff", torch::zeros(1)}}); }), HasSubstr("not UTF-8"));
  EXPECT_THAT(error_of([&] { write_safetensors_atomic("/no/such/folder/a", {}); }),
              HasSubstr("/no/such/folder/a"));
}

TEST_F(Safetensors, BadFilesAreNamed) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(complaint_of(with_header(good, 8)), "");
  EXPECT_THAT(error_of([] { read_safetensors("/no/such/file"); }), HasSubstr("/no/such/file"));
  EXPECT_THAT(error_of([] { read_safetensors("/tmp"); }), HasSubstr("/tmp"));
  EXPECT_THAT(complaint_of(""), AllOf(HasSubstr("is not a valid safetensors file"),
                                      HasSubstr("fewer than the 8"), HasSubstr("hint")));
  EXPECT_THAT(complaint_of(std::string(8, '\xff')),
              HasSubstr("header would have 18446744073709551615 bytes"));
  EXPECT_THAT(complaint_of("\x80\x04\x95 a pickle"),
              HasSubstr("is a pickle of Python, not a safetensors file"));
  EXPECT_THAT(complaint_of(with_header(good, 7)), HasSubstr("would extend to byte 8 of 7"));
  EXPECT_THAT(complaint_of(with_header(good, 9)), HasSubstr("its data has 9 bytes, but its tensors have 8"));
  EXPECT_THAT(complaint_of(with_header("[]")), HasSubstr("does not begin with {"));
  EXPECT_THAT(complaint_of(with_header("{")), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint_of(with_header("{\"\xff\":1}")), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint_of(with_header("{" + std::string(100'000, '['))), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint_of(with_header(R"({"a":)" + std::string(100'000, '['))),
              HasSubstr("is not allowed by the format"));
}

TEST_F(Safetensors, BadHeadersAreNamed) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const auto one = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return complaint_of(with_header(R"({"a":)" + entry(dtype, shape, offsets) + "}", 8));
  };
  EXPECT_THAT(one("F8_E4M3", "[8]", "[0,8]"),
              AllOf(HasSubstr("type \"F8_E4M3\", which is not supported"), Not(HasSubstr("is not a valid"))));
  EXPECT_THAT(one("F32", "[3]", "[0,8]"), HasSubstr("has 8 bytes, but its shape needs 12"));
  EXPECT_THAT(one("F32", "[2]", "[8,0]"), HasSubstr("would extend"));
  EXPECT_THAT(one("F32", "[2]", "[0,8,9]"), HasSubstr("not two numbers"));
  EXPECT_THAT(one("F32", "[-2]", "[0,8]"), HasSubstr("negative"));
  EXPECT_THAT(one("F32", "[2.0]", "[0,8]"), HasSubstr("is not allowed by the format"));
  EXPECT_THAT(one("F32", "[[2]]", "[0,8]"), HasSubstr("is not allowed by the format"));
  EXPECT_THAT(one("F32", "[4611686018427387904,4]", "[0,8]"), HasSubstr("shape that is too large"));
  EXPECT_THAT(one("F32", "[0,9223372036854775807,4]", "[0,0]"), HasSubstr("shape that is too large"));
  EXPECT_THAT(one("F32", "[18446744073709551615]", "[0,8]"), HasSubstr("too large"));
  std::string dimensions = "[1";
  for (int i = 0; i < 64; ++i) dimensions += ",1";
  EXPECT_THAT(one("U8", dimensions + "]", "[0,8]"), HasSubstr("more than 64 dimensions"));
  EXPECT_THAT(one("BOOL", "[8]", "[0,8]"), "");
  const auto two = [&](const std::string& first, const std::string& second) {
    return complaint_of(with_header(
        R"({"a":)" + entry("U8", "[4]", first) + R"(,"b":)" + entry("U8", "[4]", second) + "}", 8));
  };
  EXPECT_EQ(two("[4,8]", "[0,4]"), "");
  EXPECT_THAT(two("[0,4]", "[0,4]"), HasSubstr("begins at byte 0 of the data instead of byte 4"));
  EXPECT_THAT(two("[0,4]", "[2,6]"), HasSubstr("begins at byte 2 of the data instead of byte 4"));
  EXPECT_THAT(
      complaint_of(with_header(
          R"({"a":)" + entry("U8", "[4]", "[0,4]") + R"(,"a":)" + entry("U8", "[4]", "[4,8]") + "}", 8)),
      HasSubstr("\"a\" occurs twice"));
  EXPECT_THAT(
      complaint_of(with_header(R"({"a":{"dtype":"U8","dtype":"I8","shape":[],"data_offsets":[0,1]}})", 1)),
      HasSubstr("\"dtype\" occurs twice"));
  EXPECT_THAT(complaint_of(with_header(R"({"a":{"dtype":"U8","shape":[1]}})", 1)),
              HasSubstr("lacks its dtype, shape or data_offsets"));
  EXPECT_THAT(complaint_of(with_header(R"({"__metadata__":{"a":1}})")),
              HasSubstr("is not allowed by the format"));
  EXPECT_THAT(complaint_of(with_header(R"({"a":null})")), HasSubstr("is not allowed by the format"));
}

TEST_F(Safetensors, ABoolThatIsNeitherIsRefused) {
  std::string bytes = with_header(R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", 2);
  bytes.back() = '\2';
  EXPECT_THAT(complaint_of(bytes), HasSubstr("neither true nor false"));
}

TEST_F(Safetensors, MutatedFilesNeverDoMoreThanThrow) {
  write_safetensors(path_, every_type(), {{"format", "pt"}});
  const std::string good = read_file(path_);
  const size_t header_bytes = safetensors_header(every_type(), {{"format", "pt"}}).size();
  Random random(9);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    for (uint64_t edits = 1 + random.below(3); edits > 0; --edits) {
      const size_t at =
          random.below(random.below(4) == 0 ? bytes.size() : std::min(header_bytes, bytes.size()));
      switch (random.below(4)) {
        case 0:
          bytes[at] = static_cast<char>(random.below(256));
          break;
        case 1:
          bytes[at] = R"([]{}",:0123456789-)"[random.below(18)];
          break;
        case 2:
          bytes.erase(at, 1 + random.below(4));
          break;
        default:
          bytes.resize(at + 1);
      }
    }
    refused += complaint_of(bytes).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace lockstep::nn
