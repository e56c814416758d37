#include "lockstep/record/result.h"

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/record/known_part.h"
#include "lockstep/record/run_folder.h"

namespace lockstep::record {

void write_result(const std::filesystem::path& run_folder, const Result& result) {
  write_file_atomic(RunPaths{run_folder}.result(), lockstep::to_json(result).dump(1) + "\n");
}

std::optional<Result> read_result(const std::filesystem::path& run_folder) {
  try {
    Result result;
    const std::string json = read_file(RunPaths{run_folder}.result(), int64_t{1} << 20);
    lockstep::read_json(known_part<Result>(parse_json(json)), result, "result.json");
    return result;
  } catch (const Error&) {
  } catch (const Json::exception&) {
  }
  return std::nullopt;
}

}  // namespace lockstep::record
