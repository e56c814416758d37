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

/// Of a request that the gate let pass. It is slow if it waits for what a command of the program prints, or
/// for the folders of runs and sweeps. What the parts refer to outlives the answer. Any thread.
Answering find_answer(const Request& head, const Parts& parts);

}  // namespace lockstep::studio
