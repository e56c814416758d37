// Whether a key for Google's object store can be found. Arrow's library does not check this: without a key it
// retries until its time limit.
#pragma once

#include <string>

namespace lockstep::object_store {

/// Looks where Google's libraries look: GOOGLE_APPLICATION_CREDENTIALS, the file of `gcloud auth
/// application-default login`, and the service that gives Google's machines their role, which has 2 s to
/// answer. Throws invalid_option if there is none; `name` is what cannot be opened.
void require_google_key(const std::string& name);

}  // namespace lockstep::object_store
