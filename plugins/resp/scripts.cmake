# dlock_add_scripts(<plugin> <name>=<file>+<file>...): the table of the scripts of a plugin, in
# <PLUGIN>_SCRIPTS_C. The files are <file>.lua in the plugin's directory.
function(dlock_add_scripts plugin scripts)
  string(TOUPPER ${plugin} upper)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/scripts.c)
  set(embed ${PROJECT_SOURCE_DIR}/plugins/resp/embed.cmake)
  file(GLOB files CONFIGURE_DEPENDS *.lua)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DDIR=${CMAKE_CURRENT_SOURCE_DIR} -DOUT=${out} -DPREFIX=${plugin}
      "-DSCRIPTS=${scripts}" -P ${embed}
    DEPENDS ${files} ${embed} VERBATIM)
  add_custom_target(dlock_${plugin}_scripts DEPENDS ${out})
  set(${upper}_SCRIPTS_C ${out} PARENT_SCOPE)
endfunction()

# dlock_use_scripts(<plugin>): after dlock_add_plugin.
function(dlock_use_scripts plugin)
  foreach(target dlock_plugin_${plugin} dlock_plugin_${plugin}_static)
    if(TARGET ${target})
      target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
      add_dependencies(${target} dlock_${plugin}_scripts)
    endif()
  endforeach()
endfunction()
