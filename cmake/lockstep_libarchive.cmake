# Links libarchive statically into the project's own programs, with the few formats that they use: Debian's shared one
# needs GLIBC_2.36 (arc4random_buf), which packages must not, and loads ICU, 30 MB that no command uses. Programs of
# other projects link the shared one (lockstep_system_libraries.cmake).
#
# One member of libarchive.a lists the writers of all formats, and so links all of them; nothing here calls that list.
# objcopy makes its references weak, so that only members that something else needs are linked.
find_library(LOCKSTEP_archive_STATIC libarchive.a REQUIRED)
find_package(BZip2 REQUIRED)
find_package(LibLZMA REQUIRED)
find_library(LOCKSTEP_zstd_LIBRARY zstd REQUIRED)

set(_list archive_write_set_format.o)
set(_folder ${PROJECT_BINARY_DIR}/libarchive)
file(MAKE_DIRECTORY ${_folder})
execute_process(COMMAND ${CMAKE_AR} x ${LOCKSTEP_archive_STATIC} ${_list} WORKING_DIRECTORY ${_folder}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_OBJCOPY} --weaken ${_list} WORKING_DIRECTORY ${_folder} COMMAND_ERROR_IS_FATAL ANY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${LOCKSTEP_archive_STATIC})

set_property(TARGET lockstep_archive PROPERTY INTERFACE_LINK_LIBRARIES ${_folder}/${_list} ${LOCKSTEP_archive_STATIC}
  ZLIB::ZLIB BZip2::BZip2 LibLZMA::LibLZMA ${LOCKSTEP_zstd_LIBRARY})
