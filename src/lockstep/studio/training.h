// The commands that begin a training: what they would do, and their words.
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/studio/commands.h"
#include "lockstep/studio/studio.h"

namespace lockstep::studio {

/// The options of lockstep train that a page does not set itself, for a form.
Json training_form(const Setup& setup);

/// What a page asks for: {"data": path or address, "network": name, file or drawing, "name": of the run;
/// empty: that of the data, "options": {name: text}}. Throws invalid_option for what lockstep train would
/// refuse by its text alone.
struct Training {
  std::string data;
  Json network;
  std::vector<std::string> options;  ///< "--max-epochs=5"
  std::string name;                  ///< of the network, or of the data
};
Training read_training(const Json& body, const Setup& setup);

/// What is done with the files that the words of a command name. A command that is only shown writes nothing.
enum class Files { named, written };

/// The file of a drawn network below the first root (networks/NAME-HASH.json); a name or file of a network
/// stays as it is. Throws what is wrong with the drawing.
std::string network_word(const Json& network, const std::string& name, const Setup& setup, Files files);

/// The words of lockstep train, with a new output folder.
std::vector<std::string> train_words(const Training& training, const Setup& setup, Files files);

/// --NAME=VALUE for each of {"NAME": "VALUE"}. Throws as read_training does.
std::vector<std::string> training_options(const Json& options, const Setup& setup);

/// What lockstep plan says of it, in JSON.
std::string plan_of(const Training& training, const Setup& setup, Commands& commands);

}  // namespace lockstep::studio
