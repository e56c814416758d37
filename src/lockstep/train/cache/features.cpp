#include "lockstep/train/cache/features.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

constexpr std::array kTypes{at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};
constexpr size_t kFormHead =
    3;  // words of a stored form before its sizes: type, whether channels are last, number of sizes

// In an order of its own: ranks and trials of a sweep that compute a common file at the same time then hardly
// ever compute the same group.
std::vector<int64_t> shuffled(Range range) {
  std::vector<int64_t> order(static_cast<size_t>(range.count()));
  std::iota(order.begin(), order.end(), range.begin);
  std::ranges::shuffle(order, std::mt19937(std::random_device()()));
  return order;
}

}  // namespace

struct Features::Group {
  int64_t first;
  int64_t size;

  static Group of(int64_t index, int64_t samples) {
    return {index * kFeaturesGroup, std::min(kFeaturesGroup, samples - index * kFeaturesGroup)};
  }
};

Features::Features(std::shared_ptr<const data::ImageSet> images, FeatureStorage storage)
    : images_(std::move(images)), storage_(std::move(storage)) {
  if (std::optional<Form> stored = stored_form()) {
    std::call_once(form_known_, [&] { take_form(std::move(*stored)); });
    form_was_stored_ = true;
  }
}

void Features::check_file(uint64_t frozen) {
  if (storage_.file == nullptr || storage_.frozen == frozen) return;
  if (!storage_.in_memory) {
    throw Error(ErrorCode::invalid_option,
                "the frozen layers' weights in the checkpoint are not those of --weights any more, and their "
                "output does not fit --memory-share",
                "put the file of --weights back, or raise --memory-share");
  }
  storage_.file = nullptr;
}

void Features::compute(Share thread, ShardRunner& runner, const std::stop_token& stop,
                       const std::function<void(double)>& tell) {
  const int64_t samples = images_->size();
  const std::vector<int64_t> order =
      shuffled(part_of(divided_up(samples, kFeaturesGroup), thread.size, thread.rank));
  for (size_t i = 0; i < order.size() && !stop.stop_requested(); ++i) {
    if (tell) tell(static_cast<double>(i) / static_cast<double>(order.size()));
    const Group group = Group::of(order[i], samples);
    if ((form_was_stored_ || i > 0) && find(group)) continue;
    const at::Tensor output = outputs_of(group, runner);
    std::call_once(form_known_, [&] {
      take_form(form_of(output));
      store_form();
    });
    keep(group, as_rows(output));
    computed_ += group.size;
  }
}

at::Tensor Features::outputs_of(const Group& group, ShardRunner& runner) const {
  const data::ImageFormat& format = images_->format();
  const at::Tensor images = at::empty({group.size, format.channels, format.height, format.width}, at::kByte);
  const int64_t bytes = images_->image_bytes();
  for (int64_t i = 0; i < group.size; ++i)
    images_->read(group.first + i,
                  {images.mutable_data_ptr<uint8_t>() + i * bytes, static_cast<size_t>(bytes)});
  return runner.features(images).cpu();
}

at::Tensor Features::as_rows(const at::Tensor& output) const {
  const at::Tensor ordered = form_.channels_last ? output.permute({0, 2, 3, 1}) : output;
  return ordered.reshape({output.size(0), numbers_}).contiguous();
}

Features::Form Features::form_of(const at::Tensor& output) {
  return {.shape = output.sizes().slice(1).vec(),
          .channels_last = output.dim() == 4 && !output.is_contiguous() &&
                           output.is_contiguous(at::MemoryFormat::ChannelsLast),
          .type = output.scalar_type()};
}

// None if the records are too small for it, or if the run that made the file was stopped before the first
// group.
std::optional<Features::Form> Features::stored_form() const {
  if (storage_.file == nullptr) return std::nullopt;
  std::vector<uint8_t> record(static_cast<size_t>(storage_.file->record_bytes()));
  std::vector<int64_t> words(record.size() / sizeof(int64_t));
  if (words.size() < kFormHead || !storage_.file->read(images_->size(), record)) return std::nullopt;
  std::memcpy(words.data(), record.data(), words.size() * sizeof(int64_t));
  const auto* type =
      std::ranges::find(kTypes, words[0], [](at::ScalarType known) { return static_cast<int64_t>(known); });
  const std::span<const int64_t> sizes = std::span<const int64_t>(words).subspan(kFormHead);
  if (type == kTypes.end() || words[2] < 1 || words[2] > std::ssize(sizes)) return std::nullopt;
  Form form{.channels_last = words[1] != 0, .type = *type};
  auto left = storage_.file->record_bytes();
  for (const int64_t size : sizes.first(static_cast<size_t>(words[2]))) {
    if (size < 1 || left % size != 0) return std::nullopt;
    left /= size;
    form.shape.push_back(size);
  }
  const bool fits = left == static_cast<int64_t>(c10::elementSize(form.type)) &&
                    (!form.channels_last || form.shape.size() == 3);
  return fits ? std::optional(std::move(form)) : std::nullopt;
}

void Features::store_form() const {
  if (storage_.file == nullptr ||
      form_.shape.size() + kFormHead > static_cast<size_t>(record_bytes_) / sizeof(int64_t))
    return;
  std::vector<int64_t> words{static_cast<int64_t>(form_.type), form_.channels_last,
                             static_cast<int64_t>(form_.shape.size())};
  words.insert(words.end(), form_.shape.begin(), form_.shape.end());
  std::vector<uint8_t> record(static_cast<size_t>(record_bytes_));
  std::memcpy(record.data(), words.data(), words.size() * sizeof(int64_t));
  storage_.file->write(images_->size(), record);
}

void Features::take_form(Form form) {
  form_ = std::move(form);
  numbers_ = c10::multiply_integers(form_.shape);
  record_bytes_ = numbers_ * static_cast<int64_t>(c10::elementSize(form_.type));
  if (storage_.file != nullptr && storage_.file->record_bytes() != record_bytes_) {
    if (!storage_.in_memory)
      throw Error(ErrorCode::internal,
                  "the frozen layers give " + std::to_string(record_bytes_) +
                      " bytes for an image, and their file is for " +
                      std::to_string(storage_.file->record_bytes()),
                  "--keep-features never does without the file");
    storage_.file = nullptr;
  }
  if (storage_.in_memory) kept_ = at::empty({images_->size(), numbers_}, form_.type);
}

std::span<uint8_t> Features::bytes_of(at::Tensor& rows, int64_t row) const {
  return {static_cast<uint8_t*>(rows.mutable_data_ptr()) + row * record_bytes_,
          static_cast<size_t>(record_bytes_)};
}

void Features::keep(const Group& group, const at::Tensor& rows) {
  if (storage_.in_memory) kept_.narrow(0, group.first, group.size).copy_(rows);
  if (storage_.file == nullptr) return;
  at::Tensor records = rows;
  for (int64_t i = 0; i < group.size; ++i) storage_.file->write(group.first + i, bytes_of(records, i));
}

bool Features::find(const Group& group) {
  if (storage_.file == nullptr) return false;
  at::Tensor there = storage_.in_memory ? kept_.narrow(0, group.first, group.size)
                                        : at::empty({group.size, numbers_}, form_.type);
  for (int64_t i = 0; i < group.size; ++i) {
    if (!storage_.file->read(group.first + i, bytes_of(there, i))) return false;
  }
  return true;
}

at::Tensor Features::rows(const at::Tensor& samples, ShardRunner& runner) const {
  at::Tensor rows;
  if (storage_.in_memory) {
    rows = kept_.index_select(0, samples);
  } else {
    rows = at::empty({samples.numel(), numbers_}, form_.type);
    const auto* wanted = samples.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < samples.numel(); ++i) {
      if (storage_.file->read(wanted[i], bytes_of(rows, i))) continue;
      const Group group = Group::of(wanted[i] / kFeaturesGroup, images_->size());
      rows[i].copy_(as_rows(outputs_of(group, runner))[wanted[i] - group.first]);
    }
  }
  std::vector<int64_t> shape = form_.shape;
  shape.insert(shape.begin(), samples.numel());
  if (!form_.channels_last) return rows.view(shape);
  return rows.view({shape[0], shape[2], shape[3], shape[1]}).permute({0, 3, 1, 2});
}

}  // namespace lockstep::train
