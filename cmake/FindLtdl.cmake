# Ltdl::Ltdl - GNU libltdl.
find_path(LTDL_INCLUDE_DIR ltdl.h)
find_library(LTDL_LIBRARY ltdl)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Ltdl REQUIRED_VARS LTDL_LIBRARY LTDL_INCLUDE_DIR)
if(Ltdl_FOUND AND NOT TARGET Ltdl::Ltdl)
  add_library(Ltdl::Ltdl UNKNOWN IMPORTED)
  set_target_properties(Ltdl::Ltdl PROPERTIES
    IMPORTED_LOCATION ${LTDL_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${LTDL_INCLUDE_DIR})
endif()
