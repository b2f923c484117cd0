# ZooKeeper::st - the single-threaded C client of ZooKeeper (ADR 0028).
find_path(ZOOKEEPER_INCLUDE_DIR zookeeper/zookeeper.h)
# The archive first: the shared library takes functions of libzookeeper_mt, if the program has it.
find_library(ZOOKEEPER_ST_LIBRARY NAMES libzookeeper_st.a zookeeper_st)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ZooKeeper
  REQUIRED_VARS ZOOKEEPER_ST_LIBRARY ZOOKEEPER_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "Install libzookeeper-st-dev, or leave zookeeper out of DLOCK_PLUGINS.")
if(ZooKeeper_FOUND AND NOT TARGET ZooKeeper::st)
  add_library(ZooKeeper::st UNKNOWN IMPORTED)
  set_target_properties(ZooKeeper::st PROPERTIES
    IMPORTED_LOCATION ${ZOOKEEPER_ST_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ZOOKEEPER_INCLUDE_DIR}
    INTERFACE_LINK_LIBRARIES m) # since 3.9
endif()
