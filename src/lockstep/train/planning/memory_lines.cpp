#include <string>

#include "lockstep/base/text.h"
#include "lockstep/train/planning/internal/line_groups.h"

namespace lockstep::train {
namespace {

std::string no_cache_reason(const LengthPlan& length, const PlanReasons& reasons) {
  const bool several_epochs = length.total_steps > length.steps_per_epoch;
  return (reasons.cache.empty() ? "" : reasons.cache + ", ") +
         (several_epochs
              ? "so every epoch decodes all images again; --cache FOLDER keeps them there, for later runs too"
              : "all are decoded once (--cache " + reasons.cache_option + ")");
}

void add_disk_line(std::vector<PlanLine>& lines, const Plan& plan, const PlanReasons& reasons) {
  const auto add = [&](const std::string& value, const std::string& reason) {
    lines.push_back({"decoded on disk", value, reason});
  };
  const bool sequences = plan.data.format.kind == data::SampleKind::sequence;
  if (!reasons.cache_file.empty()) {
    add(reasons.cache_file,
        reasons.cache.empty() ? "checked against the files' sizes and times (--cache)" : reasons.cache);
  } else if (plan.machine.cached_images) {
    add("not yet", reasons.cache);
  } else if (!sequences && !plan.machine.keep_images && !plan.network.keep_features) {
    add("none", no_cache_reason(plan.length, reasons));
  } else if (!reasons.cache.empty()) {
    const bool will_be_made = reasons.dry && reasons.cache_option != "auto";
    add("none", reasons.cache + (will_be_made ? "; training makes one where it can" : "") + " (--cache " +
                    reasons.cache_option + ")");
  }
}

}  // namespace

std::vector<PlanLine> memory_lines(const Plan& plan, const PlanReasons& reasons) {
  std::vector<PlanLine> lines;
  if (plan.data.format.kind != data::SampleKind::sequence && !plan.data.streamed)
    lines.push_back({"images in memory", plan.machine.keep_images ? "all, once decoded" : "none",
                     as_bytes(plan.data.train_count * reasons.image_bytes) + " of " +
                         as_bytes(reasons.allowed_bytes) + " allowed (--memory-share)"});
  if (!reasons.resident.empty())
    lines.push_back({"images on the GPU", plan.machine.resident ? "all" : "none", reasons.resident});
  add_disk_line(lines, plan, reasons);
  return lines;
}

}  // namespace lockstep::train
