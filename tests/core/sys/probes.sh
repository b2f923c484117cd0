#!/bin/bash
# SPDX-License-Identifier: MIT
# Has the library the static probes of docs/operations.md, each with the arguments of its row?
#
#     probes.sh SOURCE-DIR LIBRARY
set -u
source_dir=$1 library=$2
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"

readelf -n "$library" | awk '/^ *Provider: /{ provider = $2 } /^ *Name: /{ name = $2 }
    /^ *Arguments: /{ print provider ":" name, NF - 1 }' | sort -u >"$tap_tmp/found"
awk '/^### Probes/ { here = 1 }
     /^## / { here = 0 }
     here && /^\| `/ { gsub("`", "", $2); print "dlock:" $2, 5 }' "$source_dir/docs/operations.md" |
    sort -u >"$tap_tmp/wanted"
check "the page has eight probes" test "$(wc -l <"$tap_tmp/wanted")" -eq 8
check "the library has these probes, with five arguments each" diff -u "$tap_tmp/wanted" "$tap_tmp/found"
tap_end
