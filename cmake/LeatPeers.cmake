# SPDX-License-Identifier: Apache-2.0
# What leat is compared with on GPUs, and in NVSHMEM's case uses too: leat_peer_nccl and
# leat_peer_nvshmem are interface targets where NCCL and NVSHMEM are found. NCCL_HOME and NVSHMEM_HOME (of the environment or CMake) come
# first, then the CUDA toolkit, then NVIDIA's packages of the Python that is on the PATH, which
# bring headers and libraries without the names that a linker looks for.

set(leat_python_nvidia "")
find_program(LEAT_PYTHON NAMES python3)
if(LEAT_PYTHON)
  execute_process(COMMAND ${LEAT_PYTHON} -c "import nvidia; print(*nvidia.__path__, sep=';')"
                  OUTPUT_VARIABLE leat_python_nvidia OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

# leat_find_peer(NAME HEADER LIBRARY...): where HEADER and a LIBRARY (full file names, best first)
# lie, as the target leat_peer_NAME.
function(leat_find_peer name header)
  string(TOUPPER ${name} upper)
  set(places ${${upper}_HOME} $ENV{${upper}_HOME} ${CUDAToolkit_LIBRARY_ROOT}
             ${CUDAToolkit_TARGET_DIR} /usr/local)
  foreach(root ${leat_python_nvidia})
    list(APPEND places ${root}/${name})
  endforeach()
  find_path(LEAT_${upper}_INCLUDE ${header} HINTS ${places} PATH_SUFFIXES include)
  find_library(LEAT_${upper}_LIBRARY NAMES ${ARGN} HINTS ${places} PATH_SUFFIXES lib lib64)
  if(NOT LEAT_${upper}_INCLUDE OR NOT LEAT_${upper}_LIBRARY)
    message(STATUS "${name}: not found, so leat neither uses it nor is compared with it "
                   "(set ${upper}_HOME to where include/${header} lies)")
    return()
  endif()
  cmake_path(GET LEAT_${upper}_LIBRARY PARENT_PATH directory)
  add_library(leat_peer_${name} INTERFACE)
  target_include_directories(leat_peer_${name} SYSTEM INTERFACE ${LEAT_${upper}_INCLUDE})
  target_link_libraries(leat_peer_${name} INTERFACE ${LEAT_${upper}_LIBRARY})
  # Old-style RPATH: what these libraries open themselves is looked for there too.
  target_link_options(leat_peer_${name} INTERFACE LINKER:--disable-new-dtags
                                                  LINKER:-rpath,${directory})
  message(STATUS "${name}: ${LEAT_${upper}_LIBRARY}")
endfunction()

leat_find_peer(nccl nccl.h libnccl.so libnccl.so.2)
leat_find_peer(nvshmem nvshmem.h libnvshmem_host.so libnvshmem_host.so.3)
if(TARGET leat_peer_nvshmem)
  cmake_path(GET LEAT_NVSHMEM_LIBRARY PARENT_PATH leat_nvshmem_directory)
  find_library(LEAT_NVSHMEM_DEVICE_LIBRARY libnvshmem_device.a HINTS ${leat_nvshmem_directory})
  if(NOT LEAT_NVSHMEM_DEVICE_LIBRARY)
    message(STATUS "nvshmem: no libnvshmem_device.a in ${leat_nvshmem_directory}, so leat is not "
                   "compared with it")
  endif()
endif()
