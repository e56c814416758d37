# Installs the headers of public_headers.txt, and those that they include, directly or through others. It runs at the
# installation, so that it reads the headers as they are then.
#   LOCKSTEP_SOURCE  the project's folder        LOCKSTEP_INCLUDE_DESTINATION  relative to the installation's folder
file(STRINGS ${LOCKSTEP_SOURCE}/cmake/public_headers.txt _open REGEX "^lockstep/")
set(_headers "")
while(_open)
  list(POP_FRONT _open _header)
  if(NOT EXISTS ${LOCKSTEP_SOURCE}/src/${_header})
    message(FATAL_ERROR "\"${_header}\" is to be installed, but is not in ${LOCKSTEP_SOURCE}/src")
  endif()
  list(APPEND _headers ${_header})
  file(STRINGS ${LOCKSTEP_SOURCE}/src/${_header} _included REGEX "^#include \"lockstep/")
  list(TRANSFORM _included REPLACE "^#include \"(.*)\".*$" "\\1")
  list(APPEND _open ${_included})
  list(REMOVE_DUPLICATES _open)
  list(REMOVE_ITEM _open ${_headers})
endwhile()
foreach(_header ${_headers})
  cmake_path(GET _header PARENT_PATH _folder)
  file(INSTALL ${LOCKSTEP_SOURCE}/src/${_header}
    DESTINATION ${CMAKE_INSTALL_PREFIX}/${LOCKSTEP_INCLUDE_DESTINATION}/${_folder})
endforeach()
