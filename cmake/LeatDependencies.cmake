# SPDX-License-Identifier: Apache-2.0
# What leat links against. Required: a thread library and jansson (JSON of the command).

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(jansson IMPORTED_TARGET jansson)
if(NOT TARGET PkgConfig::jansson)
  message(FATAL_ERROR "jansson was not found; on Debian: apt-get install libjansson-dev "
                      "(scripts/setup.sh names everything that is missing)")
endif()

# leat_find_optional(NAME MODULE): the pkg-config module MODULE becomes the target leat::NAME, with
# LEAT_HAVE_<NAME> for the code. Without it the target exists and is empty, so callers just link it.
function(leat_find_optional name module)
  string(TOUPPER ${name} upper)
  pkg_check_modules(leat_${name} QUIET IMPORTED_TARGET ${module})
  add_library(leat_optional_${name} INTERFACE)
  add_library(leat::${name} ALIAS leat_optional_${name})
  if(TARGET PkgConfig::leat_${name})
    target_link_libraries(leat_optional_${name} INTERFACE PkgConfig::leat_${name})
    target_compile_definitions(leat_optional_${name} INTERFACE LEAT_HAVE_${upper}=1)
  endif()
  message(STATUS "${name}: ${leat_${name}_VERSION}")
endfunction()

# Compressed input files.
leat_find_optional(zlib zlib)
