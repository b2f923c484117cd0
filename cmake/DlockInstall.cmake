# What `cmake --install` puts where. Plugins: DlockPlugin.cmake. Programs: their own folders.
include(CMakePackageConfigHelpers)
install(TARGETS dlock EXPORT dlock-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES
  include/dlock/dlock.h include/dlock/plugin.h include/dlock/status.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dlock)
install(EXPORT dlock-targets NAMESPACE dlock::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dlock FILE dlock-config.cmake)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dlock-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dlock-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dlock)
configure_file(cmake/dlock.pc.in dlock.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/dlock.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
