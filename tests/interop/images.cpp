// Lockstep's side of images_test.py: reads lines "PATH CHANNELS HEIGHT WIDTH RESIZE DECODE" from standard
// input and writes to standard output, for each, a line "CHANNELS HEIGHT WIDTH" or "error: why", then the
// pixels [C,H,W]. With HEIGHT 0 the image as it is stored. "PATH CHANNELS HEIGHT WIDTH change OPERATION
// MAGNITUDE" changes the pixels in PATH as TrivialAugmentWide, and "... affine ANGLE/SCALE/SHEAR 0" by that.
#include <cstdio>
#include <iostream>
#include <sstream>

#include "lockstep/base/file.h"
#include "lockstep/data/decode.h"
#include "lockstep/data/internal/affine.h"
#include "lockstep/data/internal/trivial_augment.h"
#include "lockstep/data/transform.h"

using namespace lockstep;
using namespace lockstep::data;

namespace {

template <class Choice>
Choice choice_of(const std::string& name) {
  const auto names = enum_names(Choice{});
  for (size_t i = 0; i < names.size(); ++i) {
    if (name == names[i]) return static_cast<Choice>(i);
  }
  throw std::runtime_error("no choice: " + name);
}

class Taker : public PixelTaker {
 public:
  explicit Taker(const ImageFormat& format)
      : format_(format), pixels(static_cast<size_t>(format.size().bytes())) {}
  Decode decode() const override { return format_.decode; }
  double least_scale(const ImageSize& size) const override { return data::least_scale(size, format_); }
  void take(const Pixels& given) override { to_format(given, format_, pixels); }

 private:
  const ImageFormat& format_;

 public:
  std::vector<uint8_t> pixels;
};

Image read(const std::string& path, const ImageFormat& format) {
  const std::string file = read_file(path);
  Image image;
  const auto memory = [&](const ImageSize& size) {
    image = {size.channels, size.height, size.width, std::vector<uint8_t>(static_cast<size_t>(size.bytes()))};
    return std::span(image.pixels);
  };
  if (format.height == 0) {
    decode(path, file, memory);
    if (ImageSize{image.channels, image.height, image.width} != stored_size(path))
      throw DecodeError("stored_size is another");
    return image;
  }
  Taker taker(format);
  decode(path, file, PixelSink(memory, &taker));
  if (!image.pixels.empty()) return to_format(image, format);
  return {format.channels, format.height, format.width, std::move(taker.pixels)};
}

void print(const Image& image) {
  std::printf("%lld %lld %lld\n", static_cast<long long>(image.channels),
              static_cast<long long>(image.height), static_cast<long long>(image.width));
  std::fwrite(image.pixels.data(), 1, image.pixels.size(), stdout);
}

void change(const std::string& path, const ImageFormat& format, const std::string& operation,
            double magnitude) {
  const std::string bytes = read_file(path);
  Image image{format.channels, format.height, format.width, {bytes.begin(), bytes.end()}};
  if (operation.starts_with("affine=")) {
    AffineChange affine;
    std::istringstream numbers(operation.substr(std::string("affine=").size()));
    char slash = 0;
    numbers >> affine.angle >> slash >> affine.scale >> slash >> affine.shear_x;
    apply_affine(image.pixels, format, affine);
  } else {
    apply_operation(image.pixels, format, choice_of<TrivialOperation>(operation), magnitude);
  }
  print(image);
}

void answer(const std::string& line) {
  std::istringstream words(line);
  std::string path, resize, way;
  ImageFormat format;
  words >> path >> format.channels >> format.height >> format.width >> resize >> way;
  try {
    if (resize == "change") {
      double magnitude = 0;
      words >> magnitude;
      return change(path, format, way, magnitude);
    }
    format.resize = choice_of<Resize>(resize);
    format.decode = choice_of<Decode>(way);
    print(read(path, format));
  } catch (const std::exception& error) {
    std::printf("error: %s\n", error.what());
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) answer(line);
}
