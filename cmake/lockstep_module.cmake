# lockstep_module(data DEPS base io SOURCES a.cpp b.cpp TESTS a_test.cpp [LINK lockstep::spng] [TORCH])
# makes the static library lockstep_data, its alias lockstep::data, and its test program lockstep_data_test.
#   DEPS   other modules        LINK  outside libraries
#   TORCH  links LibTorch and compiles with the shared precompiled LibTorch headers
function(lockstep_module name)
  cmake_parse_arguments(arg "TORCH" "" "DEPS;SOURCES;TESTS;LINK" ${ARGN})
  set(target lockstep_${name})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(lockstep::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  foreach(dep ${arg_DEPS})
    target_link_libraries(${target} PUBLIC lockstep_${dep})
  endforeach()
  target_link_libraries(${target} PUBLIC Threads::Threads nlohmann_json::nlohmann_json ${arg_LINK})
  if(arg_TORCH)
    target_link_libraries(${target} PUBLIC lockstep_torch)
    target_precompile_headers(${target} REUSE_FROM lockstep_precompiled)
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_MODULES ${target})

  if(LOCKSTEP_TESTS AND arg_TESTS)
    add_executable(${target}_test ${arg_TESTS})
    target_link_libraries(${target}_test PRIVATE ${target} GTest::gmock GTest::gtest_main)
    if(arg_TORCH)
      target_precompile_headers(${target}_test REUSE_FROM lockstep_precompiled)
    endif()
    add_test(NAME unit_${name} COMMAND ${target}_test)
    set_tests_properties(unit_${name} PROPERTIES LABELS unit TIMEOUT 300
      ENVIRONMENT "LOCKSTEP_SOURCE=${PROJECT_SOURCE_DIR}")
  endif()
endfunction()
