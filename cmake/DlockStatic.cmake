# libdlock_static.a: core and the plugins of DLOCK_PLUGINS in one object, whose only global symbols are
# those of the headers. A program that is linked with it loads no plugin, but can.
if(DLOCK_TESTS OR DLOCK_STATIC_PLUGINS)
  set(DLOCK_STATIC_WANTED ON)
endif()

# What each plugin needs besides: packages of pkg-config.
set(DLOCK_STATIC_sqlite sqlite3)
set(DLOCK_STATIC_redis hiredis libssl libcrypto)
set(DLOCK_STATIC_redlock ${DLOCK_STATIC_redis})
set(DLOCK_STATIC_mysql libmariadb libssl libcrypto)
set(DLOCK_STATIC_postgresql libpq libssl libcrypto)
set(DLOCK_STATIC_etcd libnghttp2 libprotobuf-c libssl libcrypto)
set(DLOCK_STATIC_zookeeper libssl libcrypto)

# dlock_static: to link with it. Call it when all plugins are known.
function(dlock_add_static_library)
  if(NOT DLOCK_STATIC_WANTED)
    return()
  endif()
  set(archive ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/libdlock_static.a)
  set(object ${PROJECT_BINARY_DIR}/dlock_static.o)
  set(parts dlock_core_static dlock_lib)
  set(interface Ltdl::Ltdl Threads::Threads)
  foreach(plugin IN LISTS DLOCK_PLUGINS)
    list(APPEND parts dlock_plugin_${plugin}_static)
  endforeach()
  foreach(part dlock_clients dlock_net dlock_net_tls dlock_resp dlock_etcd_proto)
    if(TARGET ${part})
      list(APPEND parts ${part})
    endif()
  endforeach()
  foreach(imported SQLite::SQLite3 PkgConfig::HIREDIS OpenSSL::SSL OpenSSL::Crypto PkgConfig::MARIADB
      PkgConfig::LIBPQ PkgConfig::NGHTTP2 PkgConfig::PROTOBUF_C ZooKeeper::st)
    if(TARGET ${imported})
      list(APPEND interface ${imported})
    endif()
  endforeach()
  list(TRANSFORM parts REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)

  # One object, so that names of core and plugins are not those of the program that links it.
  separate_arguments(flags UNIX_COMMAND "${CMAKE_C_FLAGS}")
  if(CMAKE_INTERPROCEDURAL_OPTIMIZATION)
    list(APPEND flags ${CMAKE_C_COMPILE_OPTIONS_IPO} -O2 -fPIC -flinker-output=nolto-rel)
  endif()
  add_custom_command(OUTPUT ${archive}
    COMMAND ${CMAKE_C_COMPILER} ${flags} -r -nostdlib -o ${object}
      -Wl,--whole-archive ${files} -Wl,--no-whole-archive
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${object}
    COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
    COMMAND ${CMAKE_AR} rcs ${archive} ${object}
    DEPENDS ${parts} VERBATIM)
  add_custom_target(dlock_static_archive DEPENDS ${archive})
  add_library(dlock_static INTERFACE)
  add_dependencies(dlock_static dlock_static_archive)
  target_include_directories(dlock_static INTERFACE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(dlock_static INTERFACE ${archive} ${interface})

  # libdlock.so.0 with the plugins in it, for the wheel of Python (scripts/wheel).
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/bundle.c CONTENT "typedef int dlock_bundle;\n")
  add_library(dlock_bundle SHARED EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/bundle.c)
  set_target_properties(dlock_bundle PROPERTIES OUTPUT_NAME dlock SOVERSION 0 LINKER_LANGUAGE C
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bundle)
  target_link_options(dlock_bundle PRIVATE -Wl,--whole-archive ${archive} -Wl,--no-whole-archive
    -Wl,--as-needed -Wl,--version-script=${PROJECT_SOURCE_DIR}/core/libdlock.map)
  target_link_libraries(dlock_bundle PRIVATE dlock_static)
endfunction()

# The archive, and dlock-static.pc, which says what else a program links. Call it after dlock.pc is made.
function(dlock_install_static_library)
  set(requires "")
  foreach(plugin IN LISTS DLOCK_PLUGINS)
    list(APPEND requires ${DLOCK_STATIC_${plugin}})
  endforeach()
  list(REMOVE_DUPLICATES requires)
  list(JOIN requires " " DLOCK_STATIC_REQUIRES)
  set(DLOCK_STATIC_LIBS "-lltdl -pthread")
  if(zookeeper IN_LIST DLOCK_PLUGINS)
    cmake_path(GET ZOOKEEPER_ST_LIBRARY FILENAME name)
    string(PREPEND DLOCK_STATIC_LIBS "-l:${name} -lm ")
  endif()
  list(JOIN DLOCK_PLUGINS ", " DLOCK_STATIC_STORES)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/dlock-static.pc.in ${PROJECT_BINARY_DIR}/dlock-static.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/dlock-static.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT static)
  install(FILES ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/libdlock_static.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT static)
endfunction()
