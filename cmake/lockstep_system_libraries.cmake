# Debian libraries that ship no CMake package: lockstep::turbojpeg, lockstep::spng, lockstep::xxhash, lockstep::zip.
function(lockstep_system_library name header library)
  find_path(LOCKSTEP_${name}_INCLUDE ${header} REQUIRED)
  find_library(LOCKSTEP_${name}_LIBRARY ${library} REQUIRED)
  add_library(lockstep_${name} INTERFACE IMPORTED GLOBAL)
  add_library(lockstep::${name} ALIAS lockstep_${name})
  target_include_directories(lockstep_${name} SYSTEM INTERFACE ${LOCKSTEP_${name}_INCLUDE})
  target_link_libraries(lockstep_${name} INTERFACE ${LOCKSTEP_${name}_LIBRARY})
endfunction()

lockstep_system_library(turbojpeg turbojpeg.h turbojpeg)
lockstep_system_library(spng spng.h spng)
lockstep_system_library(xxhash xxhash.h xxhash)
lockstep_system_library(zip zip.h zip)
