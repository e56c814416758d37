#include "lockstep/train/step/autocast_scope.h"

#include <ATen/autocast_mode.h>

#include "lockstep/train/options/number_type.h"

namespace lockstep::train {

AutocastScope::AutocastScope(Precision precision, c10::DeviceType device, WeightCasts casts)
    : enabled_(is_mixed(precision)),
      device_(device),
      outer_enabled_(at::autocast::is_autocast_enabled(device)),
      outer_type_(at::autocast::get_autocast_dtype(device)),
      outer_cache_(at::autocast::is_autocast_cache_enabled()) {
  if (!enabled_) return;
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, precision == Precision::fp16_mixed ? at::kHalf : at::kBFloat16);
  at::autocast::set_autocast_cache_enabled(casts == WeightCasts::keep);
}

AutocastScope::~AutocastScope() {
  if (!enabled_) return;
  at::autocast::set_autocast_enabled(device_, outer_enabled_);
  at::autocast::set_autocast_dtype(device_, outer_type_);
  at::autocast::set_autocast_cache_enabled(outer_cache_);
}

void AutocastScope::forget_casts() { at::autocast::clear_cache(); }

}  // namespace lockstep::train
