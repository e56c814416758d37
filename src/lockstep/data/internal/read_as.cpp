#include "lockstep/data/internal/read_as.h"

#include <optional>

#include "lockstep/data/internal/thread_buffer.h"
#include "lockstep/data/pixels.h"

namespace lockstep::data {
namespace {

class FormatTaker : public PixelTaker {
 public:
  FormatTaker(const ImageFormat& format, std::span<uint8_t> destination)
      : format_(format), destination_(destination) {
    if (format.decode == Decode::gpu && format.jpeg_decoder == nullptr)
      throw Error(ErrorCode::invalid_option, "cannot decode images on a GPU: their format names no decoder",
                  "use the decoder of device::gpu_library().jpeg_decoder");
  }
  Decode decode() const override { return format_.decode; }
  const device::JpegDecoder* jpeg_decoder() const override { return format_.jpeg_decoder; }
  double least_scale(const ImageSize& size) const override { return data::least_scale(size, format_); }
  void take(const Pixels& pixels) override { to_format(pixels, format_, destination_); }

 private:
  const ImageFormat& format_;
  std::span<uint8_t> destination_;
};

struct GivesLargePieceBack {
  ThreadBuffer& buffer;
  ~GivesLargePieceBack() { buffer.of(0); }
};

}  // namespace

void read_as(const Datastore& store, int64_t index, const ImageFormat& format,
             std::span<uint8_t> destination) {
  thread_local ThreadBuffer other;
  const GivesLargePieceBack at_end{other};
  std::optional<ImageSize> other_size;
  std::span<uint8_t> memory;
  FormatTaker taker(format, destination);
  store.read_to(index, PixelSink(
                           [&](const ImageSize& size) {
                             if (size == format.size()) return destination;
                             other_size = size;
                             memory = other.of(static_cast<size_t>(size.bytes()));
                             return memory;
                           },
                           &taker));
  if (other_size) to_format(*other_size, memory, format, destination);
}

}  // namespace lockstep::data
