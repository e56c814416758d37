#include "lockstep/cuda/nccl_link.h"

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

namespace lockstep::cuda {
namespace {

constexpr std::chrono::microseconds kLook{20};  // between two looks at the GPU

[[noreturn]] void fail(const char* what, ncclResult_t result) {
  throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(result));
}

void check_result(const char* what, ncclResult_t result) {
  if (result != ncclSuccess && result != ncclInProgress) fail(what, result);
}

// Calls of NCCL return at once (config.blocking = 0), so that a rank whose peer is gone can give up.
class NcclLink : public device::GpuLink {
 public:
  explicit NcclLink(const device::GpuLinkPlace& place)
      : device_(at::kCUDA, static_cast<c10::DeviceIndex>(place.gpu)) {
    const c10::cuda::CUDAGuard guard(device_);
    ncclUniqueId id;
    if (place.token.size() != sizeof id)
      throw std::runtime_error("a token of NCCL has " + std::to_string(sizeof id) + " bytes, not " +
                               std::to_string(place.token.size()));
    std::memcpy(&id, place.token.data(), sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    guarded([&] {
      check_result("ncclCommInitRankConfig",
                   ncclCommInitRankConfig(&comm_, static_cast<int>(place.share.size), id,
                                          static_cast<int>(place.share.rank), &config));
      wait_for_nccl(place.check);
    });
  }
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;
  ~NcclLink() override { abort(); }

  at::Device device() const override { return device_; }
  std::string way() const override { return "NCCL"; }

  void exchange(const std::vector<Message>& sends, const std::vector<Message>& receives,
                const Check& check) override {
    if (comm_ == nullptr) throw std::runtime_error("the link between the GPUs is broken");
    const c10::cuda::CUDAGuard guard(device_);
    const auto stream = c10::cuda::getCurrentCUDAStream(device_.index());
    guarded([&] {
      check_result("ncclGroupStart", ncclGroupStart());
      for (const Message& message : sends)
        check_result("ncclSend", ncclSend(message.values.const_data_ptr(), message.values.nbytes(), ncclInt8,
                                          static_cast<int>(message.peer), comm_, stream));
      for (const Message& message : receives)
        check_result("ncclRecv", ncclRecv(message.values.data_ptr(), message.values.nbytes(), ncclInt8,
                                          static_cast<int>(message.peer), comm_, stream));
      check_result("ncclGroupEnd", ncclGroupEnd());
      wait_for_nccl(check);
      at::cuda::CUDAEvent done;
      done.record(stream);
      while (!done.query()) look(check);
    });
  }

 private:
  template <class Work>
  void guarded(Work&& work) {
    try {
      work();
    } catch (...) {
      abort();
      throw;
    }
  }

  void wait_for_nccl(const Check& check) {
    ncclResult_t state = ncclInProgress;
    while (true) {
      const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
      if (asked != ncclSuccess) fail("ncclCommGetAsyncError", asked);
      if (state != ncclInProgress) break;
      look(check);
    }
    check_result("NCCL", state);
  }

  void look(const Check& check) {
    ncclResult_t state = ncclSuccess;
    check_result("ncclCommGetAsyncError", ncclCommGetAsyncError(comm_, &state));
    check_result("NCCL", state);
    check();
    std::this_thread::sleep_for(kLook);
  }

  // Does not wait: exchange() has waited for everything that it started.
  void abort() noexcept {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    comm_ = nullptr;
  }

  const at::Device device_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace

std::string nccl_token() {
  ncclUniqueId id;
  check_result("ncclGetUniqueId", ncclGetUniqueId(&id));
  return {id.internal, sizeof id};
}

std::unique_ptr<device::GpuLink> connect_nccl(const device::GpuLinkPlace& place) {
  return std::make_unique<NcclLink>(place);
}

}  // namespace lockstep::cuda
