include_guard(GLOBAL)

# dlt_mutate(<out-var> <name> <file> <original> <mutated>): a copy of plugins/memory/<file> with one
# planted defect.
function(dlt_mutate out_var name file original mutated)
  set(source ${PROJECT_SOURCE_DIR}/plugins/memory/${file})
  set(copy ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name}/${file})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(READ ${source} text)
  string(FIND "${text}" "${original}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "mutant ${name}: ${file} has no \"${original}\"")
  endif()
  string(REPLACE "${original}" "${mutated}" text "${text}")
  file(CONFIGURE OUTPUT ${copy} CONTENT "${text}" @ONLY)
  set(${out_var} ${copy} PARENT_SCOPE)
endfunction()
