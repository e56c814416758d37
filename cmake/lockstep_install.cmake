# What other projects link: lockstep::lockstep. If it is installed, find_package(lockstep) finds headers, static
# libraries, the program, and a config that finds LibTorch again.
get_property(_modules GLOBAL PROPERTY LOCKSTEP_MODULES)
list(REMOVE_ITEM _modules lockstep_cli lockstep_cli_front)  # the program's own; its parts are no library
add_library(lockstep_lockstep INTERFACE)
add_library(lockstep::lockstep ALIAS lockstep_lockstep)
set_target_properties(lockstep_lockstep PROPERTIES EXPORT_NAME lockstep)
target_link_libraries(lockstep_lockstep INTERFACE lockstep_train)
# Opened at run time, so no link builds them where a project adds this one with EXCLUDE_FROM_ALL.
foreach(plug_in lockstep_cuda lockstep_object_store)
  if(TARGET ${plug_in})
    add_dependencies(lockstep_lockstep ${plug_in})
  endif()
endforeach()
if(NOT LOCKSTEP_INSTALL)
  return()
endif()

include(CMakePackageConfigHelpers)
install(TARGETS ${_modules} lockstep_lockstep EXPORT lockstep_targets)
install(EXPORT lockstep_targets NAMESPACE lockstep:: FILE lockstep_targets.cmake DESTINATION
  ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(CODE "set(LOCKSTEP_SOURCE \"${PROJECT_SOURCE_DIR}\")\nset(LOCKSTEP_INCLUDE_DESTINATION \"${CMAKE_INSTALL_INCLUDEDIR}\")")
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake)
set(_installed_jemalloc OFF)  # as the programs of this build
if(TARGET lockstep_jemalloc)
  set(_installed_jemalloc ON)
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/lockstep-config.cmake.in
  ${PROJECT_BINARY_DIR}/lockstep-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstep-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstep-config.cmake ${PROJECT_BINARY_DIR}/lockstep-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/lockstep_libtorch.cmake ${PROJECT_SOURCE_DIR}/cmake/lockstep_system_libraries.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
