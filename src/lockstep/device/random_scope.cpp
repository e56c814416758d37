#include "lockstep/device/random_scope.h"

#include <array>
#include <mutex>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include "lockstep/device/dispatch_scope.h"

namespace lockstep::device {
namespace {

constexpr size_t kMostGpus = 128;  // more GPUs share locks

// The generator of the innermost scope of this thread.
thread_local at::Generator* current_generator = nullptr;

bool takes_generator(const c10::Argument& argument) {
  const auto* optional = argument.type()->castRaw<c10::OptionalType>();
  return optional != nullptr && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

void call_with_own_generator(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = (*stack)[first + i];
    if (value.isNone() && takes_generator(arguments[i]) && current_generator != nullptr)
      value = c10::IValue(*current_generator);
  }
  const c10::impl::ExcludeDispatchKeyGuard guard(kScopeKey);
  op.callBoxed(stack);
}

// Registered once and kept for the life of the process; without the key included, no operator reaches these
// kernels.
void intercept_random_operators() {
  static std::once_flag once;
  std::call_once(once, [] {
    let_other_operators_pass();
    auto& dispatcher = c10::Dispatcher::singleton();
    static std::vector<c10::RegistrationHandleRAII> registrations;
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
      const auto op = dispatcher.findSchema(name);
      if (!op.has_value()) continue;
      for (const c10::Argument& argument : op->schema().arguments()) {
        if (!takes_generator(argument)) continue;
        registrations.push_back(dispatcher.registerImpl(
            name, kScopeKey, c10::KernelFunction::makeFromBoxedFunction<&call_with_own_generator>(),
            std::nullopt, nullptr, "lockstep random scope"));
        break;
      }
    }
  });
}

at::Generator make_generator(c10::Device device, uint64_t seed) {
  if (device.is_cpu()) return at::make_generator<at::CPUGeneratorImpl>(seed);
  // CUDA's fused dropout accepts no generator, so the default generator, which it uses, is seeded.
  return at::globalContext().defaultGenerator(device);
}

// The generator's own mutex is no lock for this, because each operator that draws takes it.
std::mutex& turns_on(c10::Device gpu) {
  static std::array<std::mutex, kMostGpus> mutexes;
  return mutexes[static_cast<size_t>(gpu.index()) % kMostGpus];
}

}  // namespace

struct RandomScope::Included {
  c10::impl::IncludeDispatchKeyGuard guard{kScopeKey};
};

RandomScope::RandomScope(c10::Device device, uint64_t seed)
    : generator_(make_generator(device, seed)), outer_(current_generator) {
  intercept_random_operators();
  current_generator = &generator_;
  included_ = std::make_unique<Included>();
}

RandomScope::~RandomScope() { current_generator = outer_; }

std::unique_lock<std::mutex> RandomScope::reseed(uint64_t seed) {
  std::unique_lock<std::mutex> turn;
  if (!generator_.device().is_cpu()) turn = std::unique_lock(turns_on(generator_.device()));
  const std::lock_guard lock(generator_.mutex());
  generator_.set_current_seed(seed);
  return turn;
}

}  // namespace lockstep::device
