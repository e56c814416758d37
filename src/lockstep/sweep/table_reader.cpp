#include "lockstep/sweep/table_reader.h"

#include <utility>

#include "lockstep/record/state.h"
#include "lockstep/record/status_file.h"

namespace lockstep::sweep {
namespace {

void apply(const LogLine& line, Row& row) {
  row.is_cut_short = line.kind == LogKind::pause;
  switch (line.kind) {
    case LogKind::begin:
      row.state = TrialState::running;
      row.parameters.clear();
      for (const std::string& one : line.parameters)
        row.parameters.emplace_back(one.substr(0, one.find('=')), one.substr(one.find('=') + 1));
      break;
    case LogKind::outcome: {
      const Outcome outcome = outcome_of(line);
      row.state = outcome.state;
      row.value = line.value;
      row.step = outcome.step;
      row.total_steps = outcome.total_steps;
      row.seconds = line.seconds.value_or(0);
      row.error = outcome.error;
      row.weights_hash = line.weights_hash.value_or("");
      break;
    }
    case LogKind::lost:
    case LogKind::pause:
      break;
    case LogKind::early:
      // By a program that had not read yet that a person has ended it there.
      if (row.state == TrialState::stopped && line.step == row.step) break;
      row.state = TrialState::early;
      row.error.clear();
      row.weights_hash.clear();  // of its full length, if another search had trained it that far
      if (line.value) row.value = line.value;
      if (line.step) row.step = *line.step;
      break;
    case LogKind::restart:
      row = {.trial = row.trial, .parameters = row.parameters};
      break;
  }
}

}  // namespace

TableReader::TableReader(const SweepPaths& paths) : paths_(paths), log_(paths.log()), notes_(paths.notes()) {}

Table TableReader::read() {
  if (log_.has_lost_lines() || notes_.has_lost_lines()) *this = TableReader(SweepPaths(paths_));
  Table table{.spec = read_spec(paths_)};
  // Before the log: a program that ends meanwhile has written all of it.
  table.is_going_on = is_worked_on(paths_);
  for (const LogLine& line : log_.read())
    apply(line, rows_.try_emplace(line.trial, Row{.trial = line.trial}).first->second);
  for (Note& note : notes_.read()) note_of_[note.trial] = std::move(note.text);
  for (const auto& [number, known] : rows_) {
    Row& row = table.rows.emplace_back(known);
    if (const auto note = note_of_.find(number); note != note_of_.end()) row.note = note->second;
    if (row.state != TrialState::running) continue;
    if (!table.is_going_on || row.is_cut_short) row.state = TrialState::waiting;
    if (const auto status = record::read_status(paths_.trial(number))) {
      row.step = status->step;
      row.total_steps = status->total_steps;
    }
  }
  return table;
}

}  // namespace lockstep::sweep
