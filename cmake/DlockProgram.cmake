# dlock_install_program(<target>): into bin, to find the library of the tree that it is installed in,
# wherever that is moved to.
file(RELATIVE_PATH DLOCK_BIN_TO_LIB ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})

# dlock_install_man(<file>): a manual page beside the CMakeLists.txt, which gets the version.
function(dlock_install_man file)
  configure_file(${file} ${CMAKE_CURRENT_BINARY_DIR}/${file} @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${file} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endfunction()

function(dlock_install_program target)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${DLOCK_BIN_TO_LIB}")
  install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()
