// Files of torch.save, good and hostile. Python's own files are in tests/interop.
#include "lockstep/nn/torch_file.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>
#include <zip.h>

#include "lockstep/base/test_folder.h"
#include "lockstep/nn/internal/testing.h"
#include "lockstep/nn/weights_file.h"

namespace lockstep::nn {
namespace {

using testing::HasSubstr;

std::string text(const std::string& word) {
  std::string length(4, '\0');
  for (size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(word.size() >> (8 * i));
  return "X" + length + word;
}
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string small(int value) { return std::string("K") + static_cast<char>(value); }

// The pickle of {name: tensor of 6 floats as `sizes`}, as torch.save writes it.
std::string tensor(const std::string& key, const std::string& sizes, const std::string& strides,
                   int numbers = 6) {
  const std::string storage = "(" + text("storage") + global("torch", "FloatStorage") + text(key) +
                              text("cpu") + small(numbers) + "tQ";
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + storage + small(0) + sizes + strides + "\x89" +
         global("collections", "OrderedDict") + ")RtR";
}
const std::string kTwoByThree = small(2) + small(3) + "\x86";
const std::string kStrides = small(3) + small(1) + "\x86";

std::string state_dict(const std::string& items) {
  return std::string("\x80\x02") + global("collections", "OrderedDict") + ")R(" + items + "u.";
}
std::string good() { return state_dict(text("fc.weight") + tensor("0", kTwoByThree, kStrides)); }

class TorchFile : public testing::Test {
 protected:
  using Entries = std::vector<std::pair<std::string, std::string>>;

  std::filesystem::path write(const Entries& entries, bool compressed = false) {
    const std::filesystem::path path = folder_.path() / "weights.pt";
    std::filesystem::remove(path);
    zip_t* archive = zip_open(path.c_str(), ZIP_CREATE, nullptr);
    for (const auto& [name, bytes] : entries) {
      zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
      const zip_int64_t index = zip_file_add(archive, name.c_str(), source, 0);
      zip_set_file_compression(archive, static_cast<zip_uint64_t>(index),
                               compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    }
    EXPECT_EQ(zip_close(archive), 0);
    return path;
  }

  static std::string numbers(size_t count = 6) {
    std::string bytes;
    for (size_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(i) + 0.5F;
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    return bytes;
  }

  std::string refusal(const std::string& pickle, const std::string& data = numbers()) {
    const auto path = write({{"archive/data.pkl", pickle}, {"archive/data/0", data}});
    return error_of([&] { read_torch_file(path); });
  }

  lockstep::test::TemporaryFolder folder_;
};

TEST_F(TorchFile, TensorsComeOutStoredAndCompressed) {
  for (const bool compressed : {false, true}) {
    const auto path = write({{"archive/data.pkl", good()},
                             {"archive/byteorder", "little"},
                             {"archive/data/0", numbers()},
                             {"archive/version", "3\n"}},
                            compressed);
    const SafetensorsFile file = read_weights(path);
    ASSERT_EQ(file.tensors.size(), 1U);
    EXPECT_EQ(file.tensors[0].first, "fc.weight");
    EXPECT_TRUE(at::equal(file.tensors[0].second, torch::arange(6).to(at::kFloat).add(0.5).view({2, 3})));
  }
}

TEST_F(TorchFile, WrappersAreTakenOff) {
  const std::string inner = state_dict(text("module.fc.weight") + tensor("0", kTwoByThree, kStrides));
  const std::string checkpoint =
      "\x80\x02}(" + text("epoch") + small(3) + text("state_dict") + inner.substr(2, inner.size() - 3) + "u.";
  const auto path = write({{"archive/data.pkl", checkpoint}, {"archive/data/0", numbers()}});
  EXPECT_EQ(read_weights(path).tensors.at(0).first, "fc.weight");
}

TEST_F(TorchFile, TransposedTensorsKeepTheirStrides) {
  const auto path = write(
      {{"archive/data.pkl", state_dict(text("w") + tensor("0", kTwoByThree, small(1) + small(2) + "\x86"))},
       {"archive/data/0", numbers()}});
  EXPECT_TRUE(at::equal(read_torch_file(path).tensors[0].second,
                        torch::arange(6).to(at::kFloat).add(0.5).view({3, 2}).t()));
}

TEST_F(TorchFile, WhatIsNoStateDictIsRefusedByName) {
  EXPECT_THAT(refusal("\x80\x02" + global("os", "system") + "(" + text("true") + "tR."),
              HasSubstr("it names \"os.system\", which a state dict does not need"));
  EXPECT_THAT(refusal("\x80\x04" + std::string("\x8c\x02os\x8c\x06system\x93.")), HasSubstr("\"os.system\""));
  EXPECT_THAT(refusal("\x80\x02" + global("builtins", "eval") + "."), HasSubstr("\"builtins.eval\""));
  EXPECT_THAT(refusal("\x80\x02" + global("torch", "ComplexFloatStorage") + "."),
              HasSubstr("it has a \"torch.ComplexFloatStorage\", which is not supported"));
  EXPECT_THAT(refusal("\x80\x02" + global("torch._utils", "_rebuild_tensor_v3") + "."),
              HasSubstr("such as float8 or uint16, which is not supported"));
  EXPECT_THAT(refusal(state_dict(text("w") + small(3))), HasSubstr("\"w\" is not a tensor"));
  EXPECT_THAT(refusal("\x80\x02]."), HasSubstr("does not contain a state dict"));
  EXPECT_THAT(refusal("\x80\x02i"), HasSubstr("the operation 105"));
  EXPECT_THAT(refusal(""), HasSubstr("is incomplete"));
  const auto path = write({{"some.txt", "text"}});
  EXPECT_THAT(error_of([&] { read_torch_file(path); }), HasSubstr("a zip without data.pkl"));
}

TEST_F(TorchFile, ABoolThatIsNeitherIsRefused) {
  std::string pickle = state_dict(text("mask") + tensor("0", small(2) + "\x85", small(1) + "\x85", 2));
  pickle.replace(pickle.find("FloatStorage"), std::string("FloatStorage").size(), "BoolStorage");
  EXPECT_EQ(refusal(pickle, std::string("\1\0", 2)), "");
  EXPECT_THAT(refusal(pickle, std::string("\1\2", 2)), HasSubstr("neither true nor false"));
}

TEST_F(TorchFile, SizesAreHeldAgainstTheFile) {
  EXPECT_THAT(refusal(good(), numbers(5)), HasSubstr("has 20 bytes, which do not fit 6 numbers"));
  EXPECT_THAT(refusal(state_dict(text("w") + tensor("0", small(3) + small(3) + "\x86", kStrides))),
              HasSubstr("extends beyond the end"));
  EXPECT_THAT(refusal(state_dict(text("w") + tensor("7", kTwoByThree, kStrides))),
              HasSubstr("\"archive/data/7\" is missing"));
  const std::string huge = std::string("J") + std::string("\xff\xff\xff\x7f", 4);
  EXPECT_THAT(
      refusal(state_dict(text("w") + tensor("0", huge + huge + huge + "\x87", huge + huge + huge + "\x87"))),
      HasSubstr("extends beyond the end"));
}

TEST_F(TorchFile, ABombIsNotUnpacked) {
  const std::string zeros(64 << 20, '\0');
  const std::string storage = "(" + text("storage") + global("torch", "ByteStorage") + text("0") +
                              text("cpu") + "J" + std::string("\0\0\0\x04", 4) + "tQ";
  const std::string pickle = state_dict(text("w") + global("torch._utils", "_rebuild_tensor_v2") + "(" +
                                        storage + small(0) + small(1) + "\x85" + small(1) + "\x85" + "\x89" +
                                        global("collections", "OrderedDict") + ")RtR");
  const auto path = write({{"archive/data.pkl", pickle}, {"archive/data/0", zeros}}, true);
  ASSERT_LT(std::filesystem::file_size(path), 1U << 20);
  EXPECT_THAT(error_of([&] { read_torch_file(path); }),
              HasSubstr("has 67108864 bytes, more than the maximum of"));
}

TEST_F(TorchFile, TwoNamesMayShareAStorage) {
  const std::string weight = tensor("0", kTwoByThree, kStrides);
  const auto path = write({{"archive/data.pkl", state_dict(text("a") + weight + text("b") + weight)},
                           {"archive/data/0", numbers()}});
  const SafetensorsFile file = read_torch_file(path);
  ASSERT_EQ(file.tensors.size(), 2U);
  EXPECT_TRUE(at::equal(file.tensors[0].second, file.tensors[1].second));
}

// What expand() makes.
TEST_F(TorchFile, RepeatedNumbersAreReadWithinABound) {
  const auto expanded = [](const std::string& name, const std::string& sizes) {
    return text(name) + tensor("0", sizes, small(0) + small(0) + "\x86");
  };
  const std::string side = small(-56);
  const auto path = write(
      {{"archive/data.pkl", state_dict(expanded("w", side + side + "\x86"))}, {"archive/data/0", numbers()}});
  const at::Tensor weight = read_torch_file(path).tensors.at(0).second;
  EXPECT_TRUE(weight.is_contiguous());
  EXPECT_TRUE(at::equal(weight, torch::full({200, 200}, 0.5F)));
  const std::string large = std::string("J\0\0\0\x02", 5);  // 2^25 numbers, 128 MB
  EXPECT_THAT(refusal(state_dict(expanded("w", large + small(3) + "\x86"))),
              HasSubstr("tensor \"w\" repeats the numbers of its storage, like expand(), and would have "
                        "100663296 of them, more than the maximum of 256 MB"));
  std::string many;
  for (const char* name : {"a", "b", "c"}) many += expanded(name, large + small(1) + "\x86");
  EXPECT_THAT(refusal(state_dict(many)), HasSubstr("tensor \"c\" repeats"));
}

// What a pickle keeps it takes again for two bytes, so a small file could ask for very much.
TEST_F(TorchFile, WhatIsTakenAgainIsBounded) {
  const std::string weight = tensor("0", kTwoByThree, kStrides), name(2000, 'k');
  EXPECT_THAT(refusal(state_dict(text("w") + tensor(name, kTwoByThree, kStrides))),
              HasSubstr("a storage with a key of 2000 bytes"));
  EXPECT_THAT(refusal(state_dict(text(name) + weight)), HasSubstr("has a name of 2000 bytes"));
  EXPECT_THAT(refusal(state_dict(text("w") + weight + text("w") + weight)), HasSubstr("\"w\" occurs twice"));
  EXPECT_THAT(refusal("\x80\x04N\x94\x94."), HasSubstr("stores more values than it has"));
  std::string again = "\x80\x02" + text("w") + std::string("q\0(", 3);
  for (int i = 0; i < 4'000'000; ++i) again.append("h\0", 2);
  EXPECT_THAT(refusal(again + "t."), HasSubstr("more than 4000000 places"));
}

// The format before PyTorch 1.6: magic number, version, machine, state dict, keys; then counts and numbers.
std::string old_file(const std::string& state, const std::string& key = "0", int64_t count = 6,
                     const std::string& little = "\x88") {
  const std::string pickle = "\x80\x02";
  const std::string magic = pickle + "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  std::string bytes = magic + pickle + "M\xe9\x03." + pickle + "}(" + text("protocol_version") + "M\xe9\x03" +
                      text("little_endian") + little + "u." + state + pickle + "](" + text(key) + "e.";
  bytes.append(reinterpret_cast<const char*>(&count), sizeof(count));
  return bytes;
}

TEST_F(TorchFile, OldFilesAreRead) {
  // Before version 0.4 tensors had no list of hooks.
  const std::string storage =
      "(" + text("storage") + global("torch", "FloatStorage") + text("0") + text("cpu") + small(6) + "NtQ";
  const std::string first = state_dict(text("fc.weight") + global("torch._utils", "_rebuild_tensor") + "(" +
                                       storage + small(0) + kTwoByThree + kStrides + "tR");
  for (const std::string& state : {first, good()}) {
    const auto path = folder_.write("old.pt", old_file(state) + numbers());
    const SafetensorsFile file = read_weights(path);
    ASSERT_EQ(file.tensors.size(), 1U);
    EXPECT_EQ(file.tensors[0].first, "fc.weight");
    EXPECT_TRUE(at::equal(file.tensors[0].second, torch::arange(6).to(at::kFloat).add(0.5).view({2, 3})));
  }
}

TEST_F(TorchFile, BadOldFilesSaySo) {
  const auto refusal = [&](const std::string& bytes) {
    const auto path = folder_.write("old.pt", bytes);
    return error_of([&] { read_weights(path); });
  };
  EXPECT_THAT(refusal(old_file(good()) + numbers(5)), HasSubstr("it ends inside its storage \"0\""));
  EXPECT_THAT(refusal(old_file(good(), "0", int64_t{1} << 60)),
              HasSubstr("it ends inside its storage \"0\""));
  EXPECT_THAT(refusal(old_file(good(), "0", 5) + numbers()), HasSubstr("do not fit 6 numbers"));
  EXPECT_THAT(refusal(old_file(good(), "1") + numbers()), HasSubstr("its storage \"1\" has no type"));
  EXPECT_THAT(refusal(old_file(good(), "0", 6, "\x89") + numbers()), HasSubstr("big-endian"));
  EXPECT_THAT(refusal(old_file("\x80\x02" + global("os", "system") + ".")), HasSubstr("\"os.system\""));
  EXPECT_THAT(refusal(old_file(good()).substr(0, 40)), HasSubstr("its pickle is incomplete"));
  EXPECT_THAT(error_of([&] { read_weights(folder_.path() / "none.pt"); }), HasSubstr("No such file"));
}

// Every byte of a good old file set to other values, and every length.
TEST_F(TorchFile, DamagedOldFilesEndInErrors) {
  const std::string whole = old_file(good()) + numbers();
  const auto path = folder_.path() / "old.pt";
  const auto read = [&](const std::string& bytes) {
    folder_.write("old.pt", bytes);
    try {
      read_weights(path);
    } catch (const Error&) {
    }
  };
  for (size_t length = 0; length < whole.size(); ++length) read(whole.substr(0, length));
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\0', '\x01', '\x7f', '\xff', '.', 'Q'}) {
      std::string bytes = whole;
      bytes[at] = value;
      read(bytes);
    }
  }
}

// Every byte of a good file set to other values, and every length: an Error or tensors, never a crash.
TEST_F(TorchFile, DamagedFilesEndInErrors) {
  const auto path = write({{"archive/data.pkl", good()}, {"archive/data/0", numbers()}});
  std::string bytes;
  {
    std::ifstream in(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto damaged = folder_.path() / "damaged.pt";
  const auto is_refused = [&](const std::string& content) {
    std::ofstream(damaged, std::ios::binary) << content;
    return !error_of([&] { read_weights(damaged); }).empty();
  };
  size_t refused = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string other = bytes;
      other[i] = static_cast<char>(other[i] ^ change);
      refused += is_refused(other);
    }
    EXPECT_TRUE(is_refused(bytes.substr(0, i))) << "the first " << i << " of " << bytes.size() << " bytes";
  }
  EXPECT_GT(refused, bytes.size());
  // The pickle alone, whose checksum would stop most changes above.
  const std::string pickle = good();
  refused = 0;
  for (size_t i = 0; i < pickle.size(); ++i) {
    for (int change = 1; change < 256; change += 13) {
      std::string other = pickle;
      other[i] = static_cast<char>(other[i] ^ change);
      refused += !refusal(other).empty();
    }
  }
  EXPECT_GT(refused, pickle.size());
}

}  // namespace
}  // namespace lockstep::nn
