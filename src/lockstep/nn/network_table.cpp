#include <algorithm>

#include "lockstep/base/counted.h"
#include "lockstep/base/text.h"
#include "lockstep/nn/layers.h"

namespace lockstep::nn {
namespace {

using Cells = std::vector<std::string>;

template <class Count>
int64_t sum_over(const std::vector<LayerRow>& rows, Count count) {
  int64_t sum = 0;
  for (const LayerRow& row : rows) sum += count(row);
  return sum;
}

std::string sizes_text(const std::vector<int64_t>& shape) { return join_numbers(shape, "x"); }

std::string tensors_text(const std::vector<LayerTensor>& tensors) {
  std::vector<std::string> texts;
  for (const LayerTensor& tensor : tensors) texts.push_back(tensor.name + " " + sizes_text(tensor.shape));
  return join(texts, ", ");
}

std::string counted_text(int64_t count, const std::vector<LayerTensor>& tensors) {
  return tensors.empty() ? "-" : with_commas(count) + " (" + tensors_text(tensors) + ")";
}

Cells cells_of(const LayerRow& row) {
  return {row.name,
          row.type,
          join(row.inputs, ", "),
          sizes_text(row.shape),
          counted_text(row.learnable_count, row.learnables),
          counted_text(row.state_count, row.states),
          row.detail};
}

std::string line_of(const Cells& cells, const std::vector<int>& widths) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    line += cells[i];
    line.append(static_cast<size_t>(widths[i] - width_of(cells[i]) + 2), ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string tensor_total(const char* kind, int64_t tensors, int64_t count) {
  return std::to_string(tensors) + " " + kind + (tensors == 1 ? " tensor" : " tensors") + " with " +
         counted(count, "number");
}

}  // namespace

int64_t NetworkTable::learnable_count() const {
  return sum_over(rows, [](const LayerRow& row) { return row.learnable_count; });
}
int64_t NetworkTable::state_count() const {
  return sum_over(rows, [](const LayerRow& row) { return row.state_count; });
}
int64_t NetworkTable::learnable_tensor_count() const {
  return sum_over(rows, [](const LayerRow& row) { return static_cast<int64_t>(row.learnables.size()); });
}
int64_t NetworkTable::state_tensor_count() const {
  return sum_over(rows, [](const LayerRow& row) { return static_cast<int64_t>(row.states.size()); });
}

std::vector<std::vector<std::string>> network_table_cells(const NetworkTable& table) {
  std::vector<Cells> lines{{"layer", "type", "takes", "gives", "learnables", "state", "options"}};
  for (const LayerRow& row : table.rows) lines.push_back(cells_of(row));
  return lines;
}

std::string network_totals_text(const NetworkTable& table) {
  const std::string layers = counted(std::ssize(table.rows), "layer");
  const std::string learnables =
      tensor_total("learnable", table.learnable_tensor_count(), table.learnable_count());
  const std::string states = tensor_total("state", table.state_tensor_count(), table.state_count());
  return layers + ", " + learnables + " (" + as_bytes(table.learnable_count() * 4) + " in float32), " +
         states + "\n";
}

std::string network_table_text(const NetworkTable& table) {
  const std::vector<Cells> lines = network_table_cells(table);
  std::vector<int> widths(lines.front().size());
  for (const Cells& cells : lines) {
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], width_of(cells[i]));
  }
  std::string text;
  for (const Cells& cells : lines) text += line_of(cells, widths);
  return text + network_totals_text(table);
}

}  // namespace lockstep::nn
