include_guard(GLOBAL)

# dlt_mutate(<out-var> <name> <source> <original> <mutated>): a copy of that file of the project with
# one planted defect.
function(dlt_mutate out_var name source original mutated)
  get_filename_component(file ${source} NAME)
  set(source ${PROJECT_SOURCE_DIR}/${source})
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
