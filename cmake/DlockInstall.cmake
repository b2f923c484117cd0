# What `cmake --install` puts where. Plugins: DlockPlugin.cmake. Programs: their own folders.
# The installed tree may be moved as a whole: nothing in it names its prefix.
include(CMakePackageConfigHelpers)

install(TARGETS dlock dlock_plugin_api EXPORT dlock-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES
  include/dlock/dlock.h include/dlock/dlock.hpp include/dlock/metrics.h include/dlock/plugin.h include/dlock/types.h
  include/dlock/version.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/dlock)

# Where the system's Python looks below the prefix; if it looks nowhere there, Debian's folder.
find_program(DLOCK_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(DLOCK_PYTHON python3)
mark_as_advanced(DLOCK_PYTHON)
set(python_dir "")
if(DLOCK_PYTHON)
  execute_process(COMMAND ${DLOCK_PYTHON} -c "import site, sys; p = sys.argv[1].rstrip('/') + '/'
print(next((d[len(p):] for d in site.getsitepackages() if d.startswith(p) and not d[len(p):].startswith('local/')), ''))"
    ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE python_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT python_dir)
  set(python_dir lib/python3/dist-packages)
endif()
set(DLOCK_PYTHON_INSTALL_DIR ${python_dir} CACHE STRING "Where the package for Python goes")
install(DIRECTORY bindings/python/dlock DESTINATION ${DLOCK_PYTHON_INSTALL_DIR} FILES_MATCHING PATTERN "*.py" PATTERN "py.typed")

set(DLOCK_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/dlock)
install(EXPORT dlock-targets NAMESPACE dlock:: DESTINATION ${DLOCK_CMAKE_DIR})
set(DLOCK_INSTALLED_PLUGINS ${CMAKE_INSTALL_LIBDIR}/dlock)
configure_package_config_file(cmake/dlock-config.cmake.in dlock-config.cmake
  INSTALL_DESTINATION ${DLOCK_CMAKE_DIR} PATH_VARS DLOCK_INSTALLED_PLUGINS
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(dlock-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/dlock-config.cmake ${PROJECT_BINARY_DIR}/dlock-config-version.cmake
  DESTINATION ${DLOCK_CMAKE_DIR})

# The prefix as seen from the directory of dlock.pc.
file(RELATIVE_PATH DLOCK_PC_TO_PREFIX
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" DLOCK_PC_TO_PREFIX "${DLOCK_PC_TO_PREFIX}")
configure_file(cmake/dlock.pc.in dlock.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/dlock.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(DLOCK_STATIC_PLUGINS)
  dlock_install_static_library()
endif()

# The pages for those who use dlock, in the folders that they know each other by, with all that they
# link to; the headers by a link, which may be moved with the tree.
install(FILES README.md README.zh-CN.md SECURITY.md CONTRIBUTING.md CHANGELOG.md LICENSE
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR}
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.sed")
# One page of all functions, and manual pages, from the headers.
set(reference_headers dlock metrics types version)
list(TRANSFORM reference_headers REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/include/dlock/\\1.h")
set(man_headers ${reference_headers} ${PROJECT_SOURCE_DIR}/include/dlock/plugin.h)
set(headers_awk ${PROJECT_SOURCE_DIR}/cmake/headers.awk)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/reference.md
  COMMAND awk -f ${headers_awk} -f ${PROJECT_SOURCE_DIR}/cmake/reference.awk ${reference_headers} > ${PROJECT_BINARY_DIR}/reference.md
  DEPENDS ${reference_headers} ${headers_awk} ${PROJECT_SOURCE_DIR}/cmake/reference.awk)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/man3.stamp
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${PROJECT_BINARY_DIR}/man3
  COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man3
  COMMAND awk -v dir=${PROJECT_BINARY_DIR}/man3 -v version=${PROJECT_VERSION} -f ${headers_awk}
    -f ${PROJECT_SOURCE_DIR}/cmake/man3.awk ${man_headers}
  COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/man3.stamp
  DEPENDS ${man_headers} ${headers_awk} ${PROJECT_SOURCE_DIR}/cmake/man3.awk)
add_custom_target(dlock_reference ALL DEPENDS ${PROJECT_BINARY_DIR}/reference.md ${PROJECT_BINARY_DIR}/man3.stamp)
install(FILES ${PROJECT_BINARY_DIR}/reference.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(DIRECTORY ${PROJECT_BINARY_DIR}/man3 DESTINATION ${CMAKE_INSTALL_MANDIR})
file(GLOB_RECURSE plugin_pages RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
  plugins/README.md plugins/*.acl plugins/*.sql)
list(FILTER plugin_pages EXCLUDE REGEX "^plugins/(memory|net|resp)/")
foreach(page IN LISTS plugin_pages) # a directory would be installed with its empty folders
  get_filename_component(folder ${page} DIRECTORY)
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()
install(FILES bench/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench)
install(FILES examples/hello.c examples/loop_epoll.c examples/loop_uv.c examples/loop_asyncio.py examples/stock.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
file(RELATIVE_PATH DLOCK_DOC_TO_HEADERS
  ${CMAKE_INSTALL_FULL_DOCDIR}/include ${CMAKE_INSTALL_FULL_INCLUDEDIR}/dlock)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/doc-include)
file(CREATE_LINK ${DLOCK_DOC_TO_HEADERS} ${PROJECT_BINARY_DIR}/doc-include/dlock SYMBOLIC)
install(FILES ${PROJECT_BINARY_DIR}/doc-include/dlock DESTINATION ${CMAKE_INSTALL_DOCDIR}/include)

# Manifests, alert rules and a dashboard; plugins to start from, each with a project of its own.
install(DIRECTORY examples/kubernetes examples/prometheus DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(DIRECTORY examples/plugin-lockdir examples/plugin-tcplease USE_SOURCE_PERMISSIONS DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
  PATTERN build EXCLUDE)

add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt
    -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake VERBATIM)
