# The loader refuses what a group may write, and umask 002 is the default of many systems: whatever
# the umask, directories that are installed are 0755.
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# dlock_add_module(<target> SOURCES ... [LIBS ...])
#
# Builds plugins/<target>.so, to be loaded from there.
function(dlock_add_module target)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${target} MODULE ${ARG_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${target} PRIVATE dlock_flags dlock_lib ${ARG_LIBS})
  set_target_properties(${target} PROPERTIES
    PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/plugins)
  add_custom_command(TARGET ${target} POST_BUILD
    COMMAND chmod go-w $<TARGET_FILE:${target}> VERBATIM)
  if(NOT DLOCK_SANITIZE)
    # A sanitizer's runtime is resolved from the program.
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  if(DLOCK_INSTALL)
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/dlock)
  endif()
endfunction()

# dlock_add_plugin(<name> SOURCES ... [LIBS ...])
#
# Builds plugins/dlock_<name>.so, which exports its entry function and nothing else and takes no
# symbol from core, and dlock_plugin_<name>_static, the same code for libdlock_static.a and for tests
# that reach inside. Both are made of the same objects, but for plugin.c, which has the entry function.
function(dlock_add_plugin name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  list(REMOVE_ITEM ARG_SOURCES plugin.c)
  add_library(dlock_plugin_${name}_objects OBJECT ${ARG_SOURCES})
  target_include_directories(dlock_plugin_${name}_objects PRIVATE
    ${PROJECT_SOURCE_DIR}/include ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(dlock_plugin_${name}_objects PRIVATE dlock_flags dlock_lib ${ARG_LIBS})

  dlock_add_module(dlock_plugin_${name}
    SOURCES plugin.c $<TARGET_OBJECTS:dlock_plugin_${name}_objects> LIBS ${ARG_LIBS})
  set_target_properties(dlock_plugin_${name} PROPERTIES
    OUTPUT_NAME dlock_${name} DLOCK_TLS_LATE ON)

  if(DLOCK_STATIC_WANTED)
    add_library(dlock_plugin_${name}_static STATIC
      plugin.c $<TARGET_OBJECTS:dlock_plugin_${name}_objects>)
    target_compile_definitions(dlock_plugin_${name}_static PRIVATE DLOCK_STATIC)
    target_include_directories(dlock_plugin_${name}_static PUBLIC
      ${PROJECT_SOURCE_DIR}/include ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(dlock_plugin_${name}_static PUBLIC dlock_lib ${ARG_LIBS}
      PRIVATE dlock_flags)
  endif()
endfunction()
