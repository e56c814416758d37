# lockstep_module(data DEPS base io SOURCES a.cpp b.cpp TESTS a_test.cpp [LINK lockstep::spng] [TORCH])
# makes the static library lockstep_data, its alias lockstep::data, and its test program lockstep_data_test.
#   DEPS   other modules        LINK  outside libraries
#   TORCH  links LibTorch and compiles with the shared precompiled header of its tensors
#   UNITY  how many sources are compiled as one (default 8); what collides there needs a name of its own
#   ENGINE_SOURCES  sources that call LibTorch's operators or define modules: they and all tests get the larger
#                   precompiled header
function(lockstep_module name)
  cmake_parse_arguments(arg "TORCH" "UNITY" "DEPS;SOURCES;ENGINE_SOURCES;TESTS;LINK" ${ARGN})
  set(target lockstep_${name})
  if(NOT arg_UNITY)
    set(arg_UNITY 8)
  endif()
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(lockstep::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} UNITY_BUILD_BATCH_SIZE ${arg_UNITY})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  if(LOCKSTEP_SANITIZE)  # what links an installed library of such a build needs the same run-time library
    target_link_options(${target} INTERFACE $<INSTALL_INTERFACE:-fsanitize=${LOCKSTEP_SANITIZE}>)
  endif()
  foreach(dep ${arg_DEPS})
    target_link_libraries(${target} PUBLIC lockstep_${dep})
  endforeach()
  target_link_libraries(${target} PUBLIC Threads::Threads nlohmann_json::nlohmann_json ${arg_LINK})
  if(arg_TORCH)
    target_link_libraries(${target} PUBLIC lockstep_torch)
    target_precompile_headers(${target} REUSE_FROM lockstep_precompiled_tensor)
  endif()
  if(arg_ENGINE_SOURCES)
    add_library(${target}_engine OBJECT ${arg_ENGINE_SOURCES})
    set_target_properties(${target}_engine PROPERTIES UNITY_BUILD_BATCH_SIZE ${arg_UNITY})
    target_include_directories(${target}_engine PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
    target_link_libraries(${target}_engine PRIVATE $<TARGET_PROPERTY:${target},LINK_LIBRARIES>)
    target_precompile_headers(${target}_engine REUSE_FROM lockstep_precompiled_engine)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_engine>)
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_MODULES ${target})

  if(LOCKSTEP_TESTS AND arg_TESTS)
    add_executable(${target}_test ${arg_TESTS})
    set_target_properties(${target}_test PROPERTIES UNITY_BUILD_BATCH_SIZE ${arg_UNITY})
    target_link_libraries(${target}_test PRIVATE ${target} GTest::gmock GTest::gtest_main)
    if(arg_TORCH)
      target_precompile_headers(${target}_test REUSE_FROM lockstep_precompiled_engine)
    endif()
    add_test(NAME unit_${name} COMMAND ${target}_test)
    # A program that skipped some cases ends with their names, unless others failed.
    set_tests_properties(unit_${name} PROPERTIES LABELS unit TIMEOUT ${LOCKSTEP_TEST_SECONDS}
      SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\] [A-Za-z0-9_./]+[ \n]*$" ENVIRONMENT
        "LOCKSTEP_SOURCE=${PROJECT_SOURCE_DIR}")
  endif()
endfunction()
