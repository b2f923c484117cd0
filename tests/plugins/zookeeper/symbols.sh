#!/bin/bash
# The plugin has a library of its own: it takes no function of ZooKeeper from the program, which may
# use libzookeeper_mt.
#
#     symbols.sh ROOT PLUGIN
set -u
cd "$1" || exit 1
# shellcheck source=tests/kit/tap.sh
. tests/kit/tap.sh

taken=$(nm -D --undefined-only --format=posix "$2" | awk '$1 ~ /^(zoo|zk_|zerror|is_unrecoverable|log_)/ { print $1 }')
needed=$(readelf -d "$2" | grep -o 'libzookeeper[a-z_]*')

check "no function of ZooKeeper comes from elsewhere" same "" "$taken"
check "the shared library is not needed" same "" "$needed"
tap_end
