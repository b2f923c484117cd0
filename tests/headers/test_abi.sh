#!/bin/bash
# Does the library export what it is meant to, and nothing else? And is what changed in the binary
# interface, against what abi/*.abi keep, exactly what abi/*.changes say?
#
# abi/*.abi are dumps, by abidw: of the library of 0.9, without the types of core, and of the plugin
# memory of plugin ABI 3.0. abidiff 2.2 wrote the lists of changes, and REWRITE=1 writes them anew
# with it. Another abidiff has other words: then what they share is compared.
#
#     test_abi.sh SOURCE-DIR LIBRARY PLUGIN
set -u
source_dir=$1 library=$2 plugin=$3
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
cd "$source_dir/tests/headers" || exit 1

# exported LIBRARY: its symbols with their versions, as in libdlock0.symbols.
exported() {
    nm --dynamic --defined-only --with-symbol-versions "$1" | awk '$2 != "A" { sub("@@", "@", $3); print $3 }' |
        LC_ALL=C sort
}

# changes OLD-DUMP NEW-OBJECT: what abidiff says; its status says only that there are some.
changes() {
    abidiff --no-show-locs --exported-interfaces-only "$1" "$2" >"$tap_tmp/said"
    [ $(($? & 3)) -eq 0 ] || return # an error, or wrong usage
    sed 's/ ([0-9]* filtered out)//' "$tap_tmp/said" # those in the types of core
}

# facts LIST: what was removed, added, moved and renamed, each with its type, as all versions say it.
facts() {
    sed -E "s/\\b(enum|struct|typedef) //g; s/'([^'()]*) \\(([^']*)\\)\\* ([a-z_]+)'/'\\1 (* \\3)(\\2)'/" "$1" |
        grep -E "^ *('|\[[DA]\]|.*((insert|delet)ion|(offset|value) changed|name of ))" | LC_ALL=C sort
}

# as_listed OLD-DUMP NEW-OBJECT LIST
as_listed() {
    changes "$1" "$2" >"$tap_tmp/changes" || return
    [ -z "${REWRITE-}" ] || cp "$tap_tmp/changes" "$3"
    if abidiff --version | grep -q '2\.2\.'; then
        diff -u "$3" "$tap_tmp/changes"
    else
        diff -u <(facts "$3") <(facts "$tap_tmp/changes")
    fi
}

awk 'NR > 1 && $1 !~ /^DLOCK/ { print $1 }' libdlock0.symbols >"$tap_tmp/wanted"
exported "$library" >"$tap_tmp/exported"
check "libdlock0.symbols has many" test "$(wc -l <"$tap_tmp/wanted")" -ge 30
check "the library exports what libdlock0.symbols has" diff -u "$tap_tmp/wanted" "$tap_tmp/exported"
check "the SONAME is libdlock.so.0" grep -q 'SONAME.*\[libdlock\.so\.0\]' <(readelf -d "$library")
check "the library changed as abi/libdlock.changes says" \
    as_listed abi/libdlock.abi "$library" abi/libdlock.changes
check "the plugin interface changed as abi/plugin.changes says" \
    as_listed abi/plugin.abi "$plugin" abi/plugin.changes
tap_end
