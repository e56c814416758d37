// Lets bench/search drive the searches of sweeps. The first line of standard input says what is searched:
//   {"parameters": {"x": "0.0..1.0"}, "search": "tpe", "seed": 1, "lag": 8, "count": 100}
// Then it prints {"x": 0.3} for a trial and reads its loss, in the order of the trials, until all have one.
#include <cstdio>
#include <iostream>
#include <string>

#include "lockstep/sweep/search.h"

using namespace lockstep;
using namespace lockstep::sweep;

int main() {
  std::string line;
  std::getline(std::cin, line);
  const Json asked = Json::parse(line);
  SearchOptions options{
      .count = asked.at("count").get<int64_t>(), .lag = asked.at("lag").get<int64_t>(), .maximize = false};
  const auto names = enum_names(SearchKind{});
  const auto name = asked.at("search").get<std::string>();
  for (size_t k = 0; k < names.size(); ++k) {
    if (name == names[k]) options.sampler.kind = static_cast<SearchKind>(k);
  }
  options.sampler.seed = asked.at("seed").get<uint64_t>();
  Search search(Space::from_json(asked.at("parameters")), options);
  while (const auto next = search.next()) {
    Json point = Json::object();
    const auto& parameters = search.space().parameters();
    const Point& values = search.trials()[static_cast<size_t>(next->trial)].point;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (std::isnan(values[i])) continue;
      if (parameters[i].is_number()) {
        point[parameters[i].name] = values[i];
      } else {
        point[parameters[i].name] = parameters[i].choices[static_cast<size_t>(values[i])];
      }
    }
    std::printf("%s\n", point.dump().c_str());
    std::fflush(stdout);
    std::getline(std::cin, line);
    search.tell(*next, {.state = TrialState::ended, .value = std::stod(line), .step = 1});
  }
  return 0;
}
