# dlock_add_scripts(<plugin> <name>=<file>+<file>...): the table of the scripts of a plugin, in
# <PLUGIN>_SCRIPTS_C. The files are <file>.lua in the plugin's folder lua.
function(dlock_add_scripts plugin scripts)
  string(TOUPPER ${plugin} upper)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/scripts.c)
  set(embed ${PROJECT_SOURCE_DIR}/plugins/resp/embed.cmake)
  file(GLOB files CONFIGURE_DEPENDS lua/*.lua)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DDIR=${CMAKE_CURRENT_SOURCE_DIR}/lua -DOUT=${out} -DPREFIX=${plugin}
      "-DSCRIPTS=${scripts}" -P ${embed}
    DEPENDS ${files} ${embed} VERBATIM)
  set(${upper}_SCRIPTS_C ${out} PARENT_SCOPE)
endfunction()
