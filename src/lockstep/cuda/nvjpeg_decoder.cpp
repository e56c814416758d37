#include "lockstep/cuda/nvjpeg_decoder.h"

#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

#include <dlfcn.h>

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include "lockstep/base/error.h"
#include "lockstep/cuda/nvjpeg_library.h"

namespace lockstep::cuda {

NvjpegLibrary::NvjpegLibrary()
    : library_(
          ::dlopen(("libnvjpeg.so." + std::to_string(NVJPEG_VER_MAJOR)).c_str(), RTLD_NOW | RTLD_LOCAL)) {}

LibrarySymbol NvjpegLibrary::find(const char* name) const {
  void* const address = library_ == nullptr ? nullptr : ::dlsym(library_, name);
  if (address == nullptr) throw std::runtime_error(std::string("nvJPEG cannot be opened: ") + ::dlerror());
  return {address};
}

const NvjpegLibrary& NvjpegLibrary::get() {
  static const NvjpegLibrary library;
  return library;
}

namespace {

// For images of more pixels the GPU reads the Huffman codes; for smaller ones starting it takes longer than a
// core needs (DALI's threshold).
constexpr int64_t kGpuHuffmanPixels = 1'000'000;
// The number of pixels for which a seat keeps its memory; nvJPEG's own memory is several times larger.
constexpr int64_t kKeptBytes = 48 << 20;
// libjpeg interpolates colours that are stored at a lower resolution.
constexpr unsigned kFlags = NVJPEG_FLAGS_BITSTREAM_STRICT | NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION;

enum Way : size_t { by_core, by_gpu, ways };  // what reads the Huffman codes
constexpr std::array<nvjpegBackend_t, ways> kBackends{NVJPEG_BACKEND_HYBRID, NVJPEG_BACKEND_GPU_HYBRID};

// Whether nvJPEG has done the call. False if it found the file damaged or of another kind, which depends only
// on the file.
bool done(const char* call, nvjpegStatus_t status) {
  switch (status) {
    case NVJPEG_STATUS_SUCCESS:
      return true;
    case NVJPEG_STATUS_BAD_JPEG:
    case NVJPEG_STATUS_JPEG_NOT_SUPPORTED:
    case NVJPEG_STATUS_INCOMPLETE_BITSTREAM:
    case NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED:
      return false;
    case NVJPEG_STATUS_ALLOCATOR_FAILURE:
      throw Error(ErrorCode::out_of_memory,
                  std::string("the GPU's memory is full: ") + call + " got none for a JPEG",
                  "use a smaller --mini-batch-size, more --shards or --accumulate, --resident off, or "
                  "--decode exact");
    default:
      throw Error(ErrorCode::device,
                  std::string("nvJPEG failed: ") + call + " gave status " + std::to_string(status),
                  "see nvidia-smi; --decode exact does without nvJPEG");
  }
}

void demand(const char* call, nvjpegStatus_t status) {
  if (!done(call, status))
    throw std::runtime_error(std::string("nvJPEG refuses ") + call + ", with status " +
                             std::to_string(status));
}

template <class Object>
using Owned = std::unique_ptr<Object, nvjpegStatus_t (*)(Object*)>;

template <class Object, class Create>
Owned<Object> owned(nvjpegStatus_t (*destroy)(Object*), const char* call, Create&& create) {
  Object* object = nullptr;
  demand(call, create(&object));
  return {object, destroy};
}

// Memory that grows, allocated by one of CUDA's functions and freed by another; growing it loses its content.
template <cudaError_t (*allocate)(void**, size_t), cudaError_t (*release)(void*)>
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { release(address_); }

  uint8_t* of(size_t bytes) {
    if (bytes > bytes_) {
      release(address_);
      address_ = nullptr;
      bytes_ = 0;
      const size_t rounded = std::bit_ceil(bytes);
      if (const cudaError_t status = allocate(&address_, rounded); status != cudaSuccess) {
        cudaGetLastError();
        done("memory for its pixels", status == cudaErrorMemoryAllocation ? NVJPEG_STATUS_ALLOCATOR_FAILURE
                                                                          : NVJPEG_STATUS_EXECUTION_FAILED);
      }
      bytes_ = rounded;
    }
    return static_cast<uint8_t*>(address_);
  }

 private:
  void* address_ = nullptr;
  size_t bytes_ = 0;
};

cudaError_t allocate_on_gpu(void** address, size_t bytes) { return cudaMalloc(address, bytes); }
cudaError_t allocate_pinned(void** address, size_t bytes) {
  return cudaHostAlloc(address, bytes, cudaHostAllocDefault);
}

// nvJPEG on one GPU, for all threads; never freed, like the whole decoder.
struct Gpu {
  c10::DeviceIndex index;
  nvjpegHandle_t handle = nullptr;
  std::array<nvjpegJpegDecoder_t, ways> decoders{};

  explicit Gpu(int64_t gpu) : index(static_cast<c10::DeviceIndex>(gpu)) {
    const NvjpegLibrary& nvjpeg = NvjpegLibrary::get();
    const c10::cuda::CUDAGuard device(index);
    demand("nvjpegCreateEx", nvjpeg.create(NVJPEG_BACKEND_DEFAULT, nullptr, nullptr, kFlags, &handle));
    for (size_t way = 0; way < ways; ++way)
      demand("nvjpegDecoderCreate", nvjpeg.create_decoder(handle, kBackends[way], &decoders[way]));
  }
};

struct StreamOf {
  cudaStream_t stream = nullptr;
  // Not one of LibTorch's, because those are shared and may be recorded at the moment.
  StreamOf() { C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  StreamOf(const StreamOf&) = delete;
  StreamOf& operator=(const StreamOf&) = delete;
  ~StreamOf() { cudaStreamDestroy(stream); }
};

// What one image at a time needs on one GPU. Used, made and destroyed while that GPU is the thread's current
// one.
class Seat {
 public:
  explicit Seat(const Gpu& gpu) : gpu_(gpu) {
    for (const auto& state : states_) {
      demand("nvjpegStateAttachPinnedBuffer", nvjpeg_.attach_pinned(state.get(), pinned_.get()));
      demand("nvjpegStateAttachDeviceBuffer", nvjpeg_.attach_device(state.get(), device_.get()));
    }
  }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;
  ~Seat() { cudaStreamSynchronize(stream_.stream); }  // after a failure work may still use the memory

  // The pixels, in pinned memory; none for a file that nvJPEG cannot decode, and then the seat must be
  // discarded.
  std::span<const uint8_t> decode(std::string_view file, const device::JpegShape& shape) {
    if (!read_head(file, shape)) return {};
    demand("nvjpegDecodeParamsSetOutputFormat",
           nvjpeg_.set_output(parameters_.get(), shape.channels == 1 ? NVJPEG_OUTPUT_Y : NVJPEG_OUTPUT_RGBI));
    const Way way = way_for(shape);
    if (!supports(way)) return {};
    const auto bytes = static_cast<size_t>(shape.bytes());
    nvjpegImage_t image{};
    image.channel[0] = pixels_.of(bytes);
    image.pitch[0] = static_cast<size_t>(shape.width * shape.channels);
    uint8_t* const result = result_.of(bytes);

    const nvjpegJpegState_t state = states_[way].get();
    const bool decoded =
        done("nvjpegDecodeJpegHost", nvjpeg_.decode_on_host(gpu_.handle, gpu_.decoders[way], state,
                                                            parameters_.get(), file_.get())) &&
        done("nvjpegDecodeJpegTransferToDevice",
             nvjpeg_.send_to_device(gpu_.handle, gpu_.decoders[way], state, file_.get(), stream_.stream)) &&
        done("nvjpegDecodeJpegDevice",
             nvjpeg_.decode_on_device(gpu_.handle, gpu_.decoders[way], state, &image, stream_.stream));
    if (!decoded) return {};
    C10_CUDA_CHECK(cudaMemcpyAsync(result, image.channel[0], bytes, cudaMemcpyDeviceToHost, stream_.stream));
    C10_CUDA_CHECK(cudaStreamSynchronize(stream_.stream));
    return {result, bytes};
  }

 private:
  // Whether nvJPEG and we agree that it is one image.
  bool read_head(std::string_view file, const device::JpegShape& shape) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
    if (!done("nvjpegJpegStreamParse", nvjpeg_.parse(gpu_.handle, bytes, file.size(), /*save_metadata=*/0,
                                                     /*save_stream=*/0, file_.get())))
      return false;
    unsigned width = 0, height = 0, components = 0;
    const bool known =
        done("nvjpegJpegStreamGetFrameDimensions", nvjpeg_.get_size(file_.get(), &width, &height)) &&
        done("nvjpegJpegStreamGetComponentsNum", nvjpeg_.get_components(file_.get(), &components));
    return known && width == shape.width && height == shape.height && components == shape.channels;
  }

  bool supports(Way way) {
    int unsupported = 1;
    return done("nvjpegDecoderJpegSupported",
                nvjpeg_.supports(gpu_.decoders[way], file_.get(), parameters_.get(), &unsupported)) &&
           unsupported == 0;
  }

  // Decided by the file alone, because the two may round differently.
  Way way_for(const device::JpegShape& shape) {
    nvjpegJpegEncoding_t encoding = NVJPEG_ENCODING_UNKNOWN;
    const bool large = shape.height * shape.width > kGpuHuffmanPixels;
    const bool baseline =
        large && done("nvjpegJpegStreamGetJpegEncoding", nvjpeg_.get_encoding(file_.get(), &encoding)) &&
        encoding == NVJPEG_ENCODING_BASELINE_DCT;
    return baseline && supports(by_gpu) ? by_gpu : by_core;
  }

  Owned<nvjpegJpegState> make_state(Way way) {
    return owned(nvjpeg_.destroy_state, "nvjpegDecoderStateCreate", [&](nvjpegJpegState_t* to) {
      return nvjpeg_.create_state(gpu_.handle, gpu_.decoders[way], to);
    });
  }

  const NvjpegLibrary& nvjpeg_ = NvjpegLibrary::get();
  const Gpu& gpu_;
  StreamOf stream_;
  Memory<allocate_on_gpu, cudaFree> pixels_;
  Memory<allocate_pinned, cudaFreeHost> result_;
  Owned<nvjpegBufferPinned> pinned_ =
      owned(nvjpeg_.destroy_pinned, "nvjpegBufferPinnedCreate",
            [&](nvjpegBufferPinned_t* to) { return nvjpeg_.create_pinned(gpu_.handle, nullptr, to); });
  Owned<nvjpegBufferDevice> device_ =
      owned(nvjpeg_.destroy_device, "nvjpegBufferDeviceCreate",
            [&](nvjpegBufferDevice_t* to) { return nvjpeg_.create_device(gpu_.handle, nullptr, to); });
  Owned<nvjpegJpegStream> file_ =
      owned(nvjpeg_.destroy_file, "nvjpegJpegStreamCreate",
            [&](nvjpegJpegStream_t* to) { return nvjpeg_.create_file(gpu_.handle, to); });
  Owned<nvjpegDecodeParams> parameters_ =
      owned(nvjpeg_.destroy_parameters, "nvjpegDecodeParamsCreate",
            [&](nvjpegDecodeParams_t* to) { return nvjpeg_.create_parameters(gpu_.handle, to); });
  std::array<Owned<nvjpegJpegState>, ways> states_{make_state(by_core), make_state(by_gpu)};
};

std::string version_text() {
  std::string text;
  for (const libraryPropertyType part : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL}) {
    int number = 0;
    demand("nvjpegGetProperty", NvjpegLibrary::get().get_property(part, &number));
    text += (text.empty() ? "" : ".") + std::to_string(number);
  }
  return text;
}

class NvjpegDecoder : public device::JpegDecoder {
 public:
  NvjpegDecoder(const std::vector<int64_t>& gpus, const std::string& kind)
      : fingerprint_("nvJPEG " + version_text() + " on " + kind), free_(gpus.size()) {
    gpus_.reserve(gpus.size());
    for (const int64_t gpu : gpus) gpus_.emplace_back(gpu);
  }

  std::string fingerprint() const override { return fingerprint_; }

  bool decode(std::string_view file, const device::JpegShape& shape, const Take& take) const override {
    const size_t place = next_.fetch_add(1, std::memory_order_relaxed) % gpus_.size();
    const c10::cuda::CUDAGuard device(gpus_[place].index);
    std::unique_ptr<Seat> seat = free_seat(place);
    if (seat == nullptr) seat = std::make_unique<Seat>(gpus_[place]);
    const std::span<const uint8_t> pixels = seat->decode(file, shape);
    if (pixels.empty()) return false;
    take(pixels);
    if (shape.bytes() <= kKeptBytes) {
      const std::lock_guard lock(mutex_);
      free_[place].push_back(std::move(seat));
    }
    return true;
  }

 private:
  std::unique_ptr<Seat> free_seat(size_t place) const {
    const std::lock_guard lock(mutex_);
    if (free_[place].empty()) return nullptr;
    std::unique_ptr<Seat> seat = std::move(free_[place].back());
    free_[place].pop_back();
    return seat;
  }

  const std::string fingerprint_;
  std::vector<Gpu> gpus_;
  mutable std::atomic<size_t> next_{0};
  mutable std::mutex mutex_;
  mutable std::vector<std::vector<std::unique_ptr<Seat>>>
      free_;  // for each GPU as many as there were threads at once
};

}  // namespace

const device::JpegDecoder& nvjpeg_decoder(const std::vector<int64_t>& gpus, const std::string& kind) {
  using Decoders = std::map<std::vector<int64_t>, std::unique_ptr<const NvjpegDecoder>>;
  static std::mutex mutex;
  static Decoders& decoders = *new Decoders;  // at the end of the process CUDA may end before it
  const std::lock_guard lock(mutex);
  auto& decoder = decoders[gpus];
  if (decoder == nullptr) decoder = std::make_unique<const NvjpegDecoder>(gpus, kind);
  return *decoder;
}

}  // namespace lockstep::cuda
