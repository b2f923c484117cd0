# dlock_add_scripts(<plugin> <script>...): the table of the scripts of a plugin, in <PLUGIN>_SCRIPTS_C. The files are
# in the plugin's folder lua; embed.cmake says what a <script> is. The scripts as a server gets them are installed with
# the plugin's page.
function(dlock_add_scripts plugin)
  string(TOUPPER ${plugin} upper)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/scripts.c)
  set(embed ${PROJECT_SOURCE_DIR}/plugins/resp/embed.cmake)
  file(GLOB files CONFIGURE_DEPENDS lua/*.lua)
  string(REPLACE ";" " " scripts "${ARGN}")
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DDIR=${CMAKE_CURRENT_SOURCE_DIR}/lua -DOUT=${out} -DPREFIX=${plugin}
      "-DSCRIPTS=${scripts}" -P ${embed}
    DEPENDS ${files} ${embed} VERBATIM)
  if(DLOCK_INSTALL)
    install(DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/scripts DESTINATION ${CMAKE_INSTALL_DOCDIR}/plugins/${plugin})
  endif()
  set(${upper}_SCRIPTS_C ${out} PARENT_SCOPE)
  set_property(GLOBAL PROPERTY DLOCK_${upper}_SCRIPTS "${scripts}") # for mutants
endfunction()
