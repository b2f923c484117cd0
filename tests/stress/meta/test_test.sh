#!/bin/bash
# Does scripts/test tell the truth in its exit code and its last line? Runs it in a tree of its own
# with stand-ins for cmake and ctest.
#
#     test_test.sh SOURCE-DIR
set -u
source_dir=$1
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"

tree=$tap_tmp/tree
mkdir -p "$tree" "$tap_tmp/bin"
cp -r "$source_dir/scripts" "$tree"
export PATH=$tap_tmp/bin:$PATH

stand_in() {
    printf '#!/bin/bash\n%s\n' "$(cat)" >"$tap_tmp/bin/$1"
    chmod +x "$tap_tmp/bin/$1"
}

stand_in dpkg-query <<'END'
case " ${MISSING-} " in
*" ${!#} "*) ;;
*) printf %s "${PACKAGES-installed}" ;;
esac
END
stand_in cmake <<'END'
printf '%s\n' "$*" >>"${CMAKE_LOG-/dev/null}"
case $1 in
--build) exit "${BUILD_STATUS-0}" ;;
*) exit "${CONFIGURE_STATUS-0}" ;;
esac
END
stand_in ctest <<'END'
log=build/$2/Testing/Temporary/LastTest.log
mkdir -p "${log%/*}"
log_of() {
    case $1 in
    empty) printf 'Start testing\n' ;;
    good) printf '1/1 Testing: t\nOutput:\n---\n1..2\nok 1\nok 2\n<end of output>\nTest Passed.\n' ;;
    skip) printf '1/1 Testing: t\nOutput:\n---\n1..2\nok 1\nok 2 # SKIP\n<end of output>\nTest Passed.\n' ;;
    bad) printf '1/1 Testing: t\nOutput:\n---\n1..2\nok 1\nnot ok 2\n<end of output>\nTest Failed.\n' ;;
    short) printf '1/1 Testing: t\nOutput:\n---\n1..2\nok 1\n<end of output>\nTest Failed.\n' ;;
    esac
}
[ "${LOG-good}" != none ] || exit 0
printf 'run\n' >>"${CTEST_LOG-/dev/null}"
log_of "${LOG-good}" >"$log"
exit "${CTEST_STATUS-0}"
END
# Nobody to install packages.
stand_in sudo <<<'exit 1'
stand_in apt-get <<<'exit 1'

# ends TEXT STATUS LAST-LINE [NAME=VALUE...] [-- ARGUMENT...]
ends() {
    local text=$1 status=$2 last=$3 settings=() got
    shift 3
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    got=$(env "${settings[@]}" "$tree/scripts/test" "${@:2}" 2>/dev/null)
    got="$? $(tail -n 1 <<<"$got")"
    check "$text" same "$status $last" "$got"
}

ends "the quick run passes, in three builds" 0 "6 passed, 0 failed"
ends "all builds pass" 0 "8 passed, 0 failed" -- --full
ends "one build passes" 0 "2 passed, 0 failed" -- dev
ends "skips are told" 0 "2 passed, 0 failed, 2 skipped" LOG=skip -- dev asan
ends "a failing test" 1 "1 passed, 1 failed" LOG=bad CTEST_STATUS=8 -- dev
ends "a failing test that ctest missed" 1 "1 passed, 1 failed" LOG=bad -- dev
ends "a failing ctest without a failing test" 1 "2 passed, 1 failed" CTEST_STATUS=8 -- dev
ends "a program that stops in the middle" 1 "1 passed, 1 failed" LOG=short CTEST_STATUS=8 -- dev
ends "no log" 1 "0 passed, 1 failed" LOG=none -- dev
ends "no tests" 1 "0 passed, 1 failed" LOG=empty -- dev
ends "no tests match" 1 "0 passed, 1 failed" LOG=empty -- dev asan -R nothing
ends "does not configure" 1 "0 passed, 2 failed" CONFIGURE_STATUS=1 -- dev asan
ends "does not build" 1 "0 passed, 1 failed" BUILD_STATUS=1 -- dev
ends "packages missing, and nobody to install them" 1 "0 passed, 1 failed" PACKAGES=
ends "the quick run needs no mypy, patchelf or mmdebstrap" 0 "6 passed, 0 failed" "MISSING=mypy patchelf mmdebstrap"
for package in mypy patchelf mmdebstrap; do
    ends "the whole run needs $package" 1 "0 passed, 1 failed" MISSING=$package -- --full
done
ends "an unknown option" 64 "" -- --frobnicate

# What fails is not run again.
once() {
    rm -f "$tap_tmp/ctest.log"
    CTEST_LOG=$tap_tmp/ctest.log LOG=bad CTEST_STATUS=8 "$tree/scripts/test" dev >/dev/null 2>&1
    [ "$(wc -l <"$tap_tmp/ctest.log")" -eq 1 ]
}
check "a program that fails has no second run" once

# One test by its name: no look at packages, and no more is built than what it needs.
mkdir -p "$tree/build/dev/tests/cli"
echo 'build bin/prog: LINK' >"$tree/build/dev/build.ninja"
printf 'add_test([=[%s]=] %s)\n' one "\"$tree/build/dev/bin/prog\" \"$tree/build/dev/bin\"" \
    uri "\"$tree/build/dev/bin/prog\" \"memory://x\"" script "\"$tree/tests/cli/a.sh\"" \
    >"$tree/build/dev/tests/cli/CTestTestfile.cmake"
export CMAKE_LOG=$tap_tmp/cmake.log

# builds NAME TARGET...: after that, this and nothing else was asked of cmake.
builds() {
    rm -f "$CMAKE_LOG"
    PACKAGES='' "$tree/scripts/test" -t "$1" >/dev/null 2>&1 || return
    same "${*:2}" "$(sed -E 's/.*--target (.*) -- --quiet/\1/' "$CMAKE_LOG")"
}

ends "one test passes" 0 "2 passed, 0 failed" PACKAGES= -- -t one
ends "one test, in two builds" 1 "2 passed, 1 failed" -- dev asan -t one
ends "one test fails" 1 "1 passed, 1 failed" LOG=bad CTEST_STATUS=8 -- -t one
ends "one test that is not there" 1 "0 passed, 1 failed" -- -t none
ends "one test that does not build" 1 "0 passed, 1 failed" BUILD_STATUS=1 -- -t one
ends "no name" 64 "" -- -t
check "one test builds its program" builds one bin/prog
check "one test of a URI builds the plugins" builds uri bin/prog cli/all plugins-build/all ruler tests/cli/all
check "one script builds what it may call" builds script cli/all plugins-build/all ruler tests/cli/all
rm -r "$tree/build/dev"

# What an earlier run left behind is not counted again.
mkdir -p "$tree/build/dev/Testing/Temporary"
LOG=good "$tree/scripts/test" dev >/dev/null 2>&1
ends "an old log does not count" 1 "0 passed, 1 failed" LOG=none -- dev
tap_end
