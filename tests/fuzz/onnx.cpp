// The reader of ONNX files. What is accepted must be a network that works, and that can be written again.
#include <array>

#include "driver.h"
#include "lockstep/base/error.h"
#include "lockstep/onnx/code.h"
#include "lockstep/onnx/export_onnx.h"
#include "lockstep/onnx/import_onnx.h"

using namespace lockstep;

namespace {

void read_onnx(std::string_view input) {
  const onnx::Imported imported =
      onnx::import_onnx(input, {.name = "a.onnx", .folder = ".", .height = 8, .width = 8});
  static_cast<void>(onnx::to_onnx(imported.trained));
  static_cast<void>(onnx::cpp_code(imported.trained.network, imported.trained.input));
}

}  // namespace

int main(int argc, char** argv) {
  std::array readers{fuzz::Reader{"onnx", read_onnx}};
  return fuzz::run(argc, argv, readers);
}
