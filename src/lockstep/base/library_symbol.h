// A function or variable of a library that is opened at run time.
#pragma once

namespace lockstep {

/// The result of dlsym: becomes a pointer to any function, so the declared type of what it initialises says
/// what it is.
struct LibrarySymbol {
  void* address;
  template <class Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(address);
  }  // NOLINT: converts to the pointer that it is assigned to
};

}  // namespace lockstep
