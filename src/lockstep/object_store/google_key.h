// Whether a key for Google's object store can be found. Arrow's library does not ask: without one it tries
// for as long as it may.
#pragma once

#include <string>

namespace lockstep::object_store {

/// Looks where Google's libraries look: GOOGLE_APPLICATION_CREDENTIALS, the file of `gcloud auth
/// application-default login`, and the service that gives machines of Google's their role, which has 2 s to
/// answer. Throws invalid_option, with `name` as what cannot be opened, where there is none.
void require_google_key(const std::string& name);

}  // namespace lockstep::object_store
