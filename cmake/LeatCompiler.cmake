# SPDX-License-Identifier: Apache-2.0
# Language, warnings and sanitizers for every target below the root.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
# gnu17: the library needs POSIX and Linux calls, and the compiler's own -ffp-contract policy.
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(LEAT_WERROR)
  set(CMAKE_COMPILE_WARNING_AS_ERROR ON)
endif()

add_compile_options(
  "$<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wconversion;-Wshadow;-Wstrict-prototypes>")
# Detail texts and path rows are cut at their buffers' ends, by contract.
add_compile_options("$<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-format-truncation>")

if(LEAT_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:C>:-fsanitize=${LEAT_SANITIZE}>"
                      "$<$<COMPILE_LANGUAGE:C>:-fno-omit-frame-pointer>"
                      "$<$<COMPILE_LANGUAGE:C>:-fno-sanitize-recover=all>")
  # gcc 12 loses the size of nested arrays in instrumented code and sees overflows that are none.
  add_compile_options("$<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-stringop-overflow>")
  add_link_options(-fsanitize=${LEAT_SANITIZE})
endif()

if(LEAT_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "LEAT_FUZZ needs clang, got ${CMAKE_C_COMPILER_ID}: "
                        "configure with -DCMAKE_C_COMPILER=clang (preset fuzz)")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# CUDA is used when it is there; nothing but the .cu files depends on it.
set(LEAT_HAVE_CUDA FALSE)
if(LEAT_CUDA)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    # Toolkits from NVIDIA's installer are seldom on the PATH.
    find_program(LEAT_NVCC nvcc HINTS /usr/local/cuda/bin)
    if(LEAT_NVCC)
      set(CMAKE_CUDA_COMPILER ${LEAT_NVCC})
    endif()
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(CMAKE_CUDA_STANDARD 17)
    set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
    set(LEAT_HAVE_CUDA TRUE)
    add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow>")
  elseif(NOT LEAT_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "LEAT_CUDA=${LEAT_CUDA} but no nvcc was found: put it on the PATH, "
                        "set -DCMAKE_CUDA_COMPILER=, or use -DLEAT_CUDA=AUTO")
  endif()
endif()
