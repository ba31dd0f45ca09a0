# SPDX-License-Identifier: Apache-2.0
# Libraries, headers, the command, and the files by which pkg-config and CMake find them.
include(CMakePackageConfigHelpers)

install(TARGETS leat leat_static EXPORT leatTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/leat DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET leat_nvshmem)
  install(TARGETS leat_nvshmem LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET leat_cli)
  install(TARGETS leat_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(peer leat_peer_mpi_halo leat_peer_openmpi_msg leat_peer_mpich_msg)
  if(TARGET ${peer})
    # Only where it was built: without it `leat bench` compares with nothing.
    install(TARGETS ${peer} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
  endif()
endforeach()
file(GLOB leat_docs CONFIGURE_DEPENDS docs/*.md)
file(GLOB leat_examples CONFIGURE_DEPENDS examples/*.c)
file(GLOB leat_machines CONFIGURE_DEPENDS share/machines/*.machine)
install(FILES ${leat_machines} DESTINATION ${CMAKE_INSTALL_DATADIR}/leat/machines)
foreach(machine ${leat_machines})
  # The command looks beside itself, in a build folder as in an installation.
  cmake_path(GET machine FILENAME name)
  configure_file(${machine} ${PROJECT_BINARY_DIR}/share/leat/machines/${name} COPYONLY)
endforeach()
install(FILES LICENSE ${leat_docs} DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${leat_examples} DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# What the rules above take, and nothing more: an installation needs no tests and no benchmarks.
add_custom_target(leat_installed)
foreach(target leat leat_static leat_nvshmem leat_cli leat_peer_mpi_halo leat_peer_openmpi_msg leat_peer_mpich_msg)
  if(TARGET ${target})
    add_dependencies(leat_installed ${target})
  endif()
endforeach()

set(leat_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/leat)
install(EXPORT leatTargets NAMESPACE leat:: DESTINATION ${leat_cmake_dir})
configure_package_config_file(cmake/leatConfig.cmake.in leatConfig.cmake
                              INSTALL_DESTINATION ${leat_cmake_dir})
# Until 1.0 a minor version may change the interface.
write_basic_package_version_file(leatConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/leatConfig.cmake ${PROJECT_BINARY_DIR}/leatConfigVersion.cmake
        DESTINATION ${leat_cmake_dir})

# pkg-config knows no build tree: what libleat.a needs has to be spelt out.
set(LEAT_PC_LIBS_PRIVATE "-pthread -lm -lrt -ldl")
if(leat_needs_cuda)
  string(APPEND LEAT_PC_LIBS_PRIVATE " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static")
endif()
if(leat_uring_FOUND)
  string(APPEND LEAT_PC_LIBS_PRIVATE " -luring")
endif()
# The prefix is known only when installing (`cmake --install --prefix`), so the file finds it from
# where it lies itself.
file(RELATIVE_PATH LEAT_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" LEAT_PC_TO_PREFIX "${LEAT_PC_TO_PREFIX}")
configure_file(cmake/leat.pc.in leat.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/leat.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
