// Prints what C++ programs read from a run folder: its state and its events, as JSON.
#include <iostream>

#include "lockstep/base/error.h"
#include "lockstep/record/event_log.h"
#include "lockstep/record/state.h"

int main(int count, char** arguments) {
  using namespace lockstep;
  if (count != 2) {
    std::cerr << "usage: lockstep_read_record RUN\n";
    return 2;
  }
  try {
    const record::StateOfRun state = record::state_of(arguments[1]);
    Json events = Json::array();
    for (const record::Event& event : record::read_events(arguments[1]))
      events.push_back(
          {{"kind", event.kind}, {"step", event.step}, {"attempt", event.attempt}, {"values", event.values}});
    std::cout << Json({{"state", enum_names(state.state)[static_cast<size_t>(state.state)]},
                       {"reason", state.reason},
                       {"attempt", state.attempt},
                       {"step", state.step},
                       {"total_steps", state.total_steps},
                       {"events", events}})
                     .dump()
              << '\n';
    return 0;
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
