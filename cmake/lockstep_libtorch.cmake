# The target lockstep::torch: LibTorch's CPU half (libtorch_cpu, libc10), from the folder that scripts/setup unpacks.
# LOCKSTEP_LIBTORCH_VERSION is empty, and there is no target, if the folder has no LibTorch.
# TorchConfig.cmake is not used: for this wheel it asks for a CUDA toolkit, which a CPU program does not need.
set(_lockstep_cache "$ENV{LOCKSTEP_CACHE}")
if(NOT _lockstep_cache)
  if(DEFINED ENV{XDG_CACHE_HOME})
    set(_lockstep_cache "$ENV{XDG_CACHE_HOME}/lockstep")
  else()
    set(_lockstep_cache "$ENV{HOME}/.cache/lockstep")
  endif()
endif()
set(LOCKSTEP_LIBTORCH "${_lockstep_cache}/libtorch-2.15.0" CACHE PATH "Folder that holds torch/ and nvidia/")

set(LOCKSTEP_LIBTORCH_VERSION "")
set(_lockstep_header "${LOCKSTEP_LIBTORCH}/torch/include/torch/headeronly/version.h")
if(EXISTS "${LOCKSTEP_LIBTORCH}/torch/lib/libtorch_cpu.so" AND EXISTS "${_lockstep_header}")
  file(STRINGS "${_lockstep_header}" _lockstep_header REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX MATCHALL "[0-9]+" _lockstep_header "${_lockstep_header}")
  list(JOIN _lockstep_header "." LOCKSTEP_LIBTORCH_VERSION)
endif()

if(LOCKSTEP_LIBTORCH_VERSION AND NOT TARGET lockstep::torch)
  add_library(lockstep_torch INTERFACE IMPORTED GLOBAL)
  add_library(lockstep::torch ALIAS lockstep_torch)
  target_include_directories(lockstep_torch SYSTEM INTERFACE
    ${LOCKSTEP_LIBTORCH}/torch/include ${LOCKSTEP_LIBTORCH}/torch/include/torch/csrc/api/include)
  # Without it LibTorch's classes have other members than in its libraries, so other projects need it too.
  target_compile_definitions(lockstep_torch INTERFACE NDEBUG)
  target_link_libraries(lockstep_torch INTERFACE
    ${LOCKSTEP_LIBTORCH}/torch/lib/libtorch_cpu.so ${LOCKSTEP_LIBTORCH}/torch/lib/libc10.so)
  # RPATH, not RUNPATH: libtorch_cpu finds its own neighbours only when the program's path is inherited.
  target_link_options(lockstep_torch INTERFACE -Wl,--disable-new-dtags
    -Wl,-rpath,${LOCKSTEP_LIBTORCH}/torch/lib -Wl,-rpath-link,${LOCKSTEP_LIBTORCH}/torch/lib
    -Wl,--allow-shlib-undefined)
endif()
