// LSTM and GRU of ONNX. Their inputs are [time,batch,C].
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "lockstep/onnx/internal/gates.h"
#include "lockstep/onnx/internal/importer.h"

namespace lockstep::onnx {
namespace {

/// The first hidden state; only zeros are an empty one.
void check_first_state(Importer& importer, int index) {
  if (!importer.has_input(index)) return;
  const auto* fill = std::get_if<Fill>(&importer.value(index));
  if (fill != nullptr && fill->value == 0) return;
  if (fill == nullptr && importer.constant(index).count_nonzero().item<int64_t>() == 0) return;
  throw Unsupported{"it begins with another hidden state than zeros"};
}

void check_kind(Importer& importer, GateOrder order) {
  const std::string direction = importer.text_attribute("direction", "forward");
  if (direction != "forward") throw Unsupported{"its direction is " + name_text(direction)};
  if (importer.attribute("activations") != nullptr || importer.attribute("clip") != nullptr ||
      importer.integer_attribute("input_forget", 0) != 0)
    throw Unsupported{"it has other activations than those of PyTorch"};
  if (importer.integer_attribute("layout", 0) != 0) throw Unsupported{"its layout is 1"};
  if (order == GateOrder::gru && importer.integer_attribute("linear_before_reset", 0) == 0)
    throw Unsupported{"its reset gate acts before the product (linear_before_reset is 0), not as in PyTorch"};
  if (importer.has_input(4)) throw Unsupported{"it has lengths of sequences"};
  check_first_state(importer, 5);
  if (order == GateOrder::gru) return;
  check_first_state(importer, 6);
  if (importer.has_input(7)) throw Unsupported{"it has peepholes"};
  if (importer.node().output_size() > 2 && importer.is_read(2))
    throw Unsupported{"the state of its cells is read"};
}

void import_recurrent(Importer& importer, const char* type, GateOrder order) {
  const View view = importer.view(0);
  if (view.labels() != "TNC")
    throw Unsupported{"its input is " + axes_text(view.axes) + ", and not [time,batch,channels]"};
  check_kind(importer, order);
  const at::Tensor weight = importer.constant(1), recurrence = importer.constant(2);
  const int64_t gates = gate_count(order), channels = view.axes[2].size;
  if (weight.dim() != 3 || recurrence.dim() != 3 || weight.size(0) != 1 || recurrence.size(0) != 1 ||
      weight.size(2) != channels || recurrence.size(2) < 1 || weight.size(1) != gates * recurrence.size(2) ||
      recurrence.size(1) != weight.size(1))
    throw Unsupported{"its weights do not have the shapes of an LSTM or GRU"};
  const int64_t hidden = recurrence.size(2), rows = gates * hidden;
  const at::Tensor both =
      importer.has_input(3) ? importer.constant(3) : at::zeros({1, 2 * rows}, weight.options());
  if (both.numel() != 2 * rows) throw Unsupported{"its biases do not have the shape of an LSTM or GRU"};
  const at::Tensor biases = both.reshape({2, rows});
  LayerDraft draft{.type = type, .options = {{"hidden", hidden}}};
  draft.tensors = {{"weight_ih_l0", from_onnx_gates(weight[0], order)},
                   {"weight_hh_l0", from_onnx_gates(recurrence[0], order)},
                   {"bias_ih_l0", from_onnx_gates(biases[0], order)},
                   {"bias_hh_l0", from_onnx_gates(biases[1], order)}};
  draft.tensor_name = importer.tensor_name(1);
  const size_t layer = importer.add_layer(std::move(draft), {view});
  importer.set_output(0, View{.layer = layer,
                              .axes = {view.axes[0], {}, view.axes[1], {'C', hidden}},
                              .recurrent = RecurrentOutput::sequence});
  importer.set_output(
      1, View{.layer = layer, .axes = {{}, view.axes[1], {'F', hidden}}, .recurrent = RecurrentOutput::last});
}

void import_lstm(Importer& importer) { import_recurrent(importer, "lstm", GateOrder::lstm); }
void import_gru(Importer& importer) { import_recurrent(importer, "gru", GateOrder::gru); }

}  // namespace

ImportNode recurrent_operator(const std::string& op) {
  return op == "LSTM" ? import_lstm : op == "GRU" ? import_gru : nullptr;
}

}  // namespace lockstep::onnx
