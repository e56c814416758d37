# One set of compile and link settings for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# Not CMake's property, which gives programs -fpie: one flag for all lets all share one precompiled header.
add_compile_options(-fPIC)
# LibTorch's macros leave the file's name in the program: from the project's folder on, wherever that is.
add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# In the place of CMake's own flags; a user's flags stay.
if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
endif()
# NDEBUG in both: without it LibTorch's classes have other members than in its libraries.
if(CMAKE_CXX_FLAGS_DEBUG STREQUAL "-g")
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g -DNDEBUG")
endif()

# -Wrestrict misfires on std::string in g++ 12. Fused multiply-adds would give each instruction set its own rounding.
add_compile_options(-Wall -Wextra -Wno-restrict -ffp-contract=off)
if(LOCKSTEP_WERROR)
  add_compile_options(-Werror)
endif()

set(LOCKSTEP_TEST_SECONDS 600)  # after which a test is taken to hang
if(LOCKSTEP_SANITIZE)
  set(LOCKSTEP_TEST_SECONDS 3600)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -g1)  # lines are enough for their reports
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
endif()

# RPATH, not RUNPATH: libtorch_cpu finds its own neighbours only when the program's path is inherited.
add_link_options(-Wl,--disable-new-dtags)
find_program(LOCKSTEP_MOLD mold)
if(LOCKSTEP_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
endif()
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES ccache)
  # It can only see through a precompiled header with this flag.
  add_compile_options(-fpch-preprocess)
endif()
