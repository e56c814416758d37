// What the server answers: the table of addresses below /api/, and the files of the pages.
#pragma once

#include "lockstep/studio/commands.h"
#include "lockstep/studio/event_stream.h"
#include "lockstep/studio/message.h"
#include "lockstep/studio/runs.h"
#include "lockstep/studio/studio.h"
#include "lockstep/studio/sweeps.h"

namespace lockstep::studio {

/// What the answers are made of.
struct Parts {
  const Setup& setup;
  EventStream& events;
  Runs& runs;
  Sweeps& sweeps;
  Commands& commands;
};

/// Of a request that the gate let pass. Throws errors of the caller and of files; any thread.
Response answer(const Request& request, const Parts& parts);

/// Whether the answer to a request is what a command of the program prints, which may take minutes.
bool waits_for_command(const Request& request);

/// The paths that answer() knows, for tests.
std::vector<std::string> known_paths();

}  // namespace lockstep::studio
