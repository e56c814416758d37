// Mistakes of which each must be named by one sentence of a compiler error (compile_errors_test.py).
#include <cstdint>
#include <filesystem>

#include <torch/nn/pimpl.h>

#include "lockstep/lockstep.h"

using namespace lockstep;

template <class T>
struct With {
  T value{};
  static constexpr auto describe = [](auto& self, auto&& field) { field("value", self.value, ""); };
};
struct WithoutDescribe {
  double value = 0;
};

void takes_int(Worker&, const With<int>&) {}
void takes_path(Worker&, const With<std::filesystem::path>&) {}
With<float> gives_float(Worker&) { return {}; }
void takes_a_value(Worker&, With<double>) {}
void takes_what_is_not_described(Worker&, const WithoutDescribe&) {}
void gives_nothing(Worker&, const With<double>&) {}

struct ForwardImpl : torch::nn::Module {
  static at::Tensor forward(const at::Tensor& images) { return images; }
};
TORCH_MODULE(Forward);
struct NoForwardImpl : torch::nn::Module {};
TORCH_MODULE(NoForward);
ForwardImpl* make_pointer(const nn::NetworkInput&) { return nullptr; }
Forward make_without_input() { return {}; }

void client(Session& session) {
  nn::network<make_pointer>("pointer");
  nn::network("value", [](const nn::NetworkInput&) { return ForwardImpl(); });
  nn::network<make_without_input>("no_input");
  nn::network("no_forward", [](const nn::NetworkInput&) { return NoForward(); });
  sweep::run(session, sweep::Space(), task<gives_nothing>("gives_nothing"), {});
}

int main(int argc, char** argv) {
  return run(argc, argv,
             {task<takes_int>("int"), task<takes_path>("path"), task<gives_float>("float"),
              task<takes_a_value>("value"), task<takes_what_is_not_described>("not_described")},
             client);
}
