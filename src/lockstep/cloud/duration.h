// How long a training takes on other numbers and kinds of workers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::cloud {

/// What is known about the duration, and on which kind of worker.
class Duration {
 public:
  /// hours  on this number of workers
  /// kept   share of the speed that is kept at each doubling of the workers
  Duration(double hours, int64_t workers, double kept);
  /// Forecast rows: workers and hours, at least one, in rising order of workers.
  Duration(std::vector<std::pair<int64_t, double>> rows, double kept);

  /// Hours on this number of workers of the same kind. Between two rows it is a straight line on logarithmic
  /// axes; elsewhere the nearest row, scaled with `kept`.
  double hours(int64_t workers) const;

 private:
  std::vector<std::pair<int64_t, double>> rows_;
  double kept_;
};

/// What a file of `lockstep plan --forecast --json` says.
struct ForecastFile {
  std::vector<std::pair<int64_t, double>> rows;  ///< workers, hours of the whole run
  bool on_gpu = false;
};

/// Throws not_found, corrupt_data with the file and what it lacks.
ForecastFile read_forecast(const std::filesystem::path& file);

}  // namespace lockstep::cloud
