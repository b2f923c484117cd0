#!/bin/bash
# Can others build on what `cmake --install` puts down, and is it hardened? Installs into a new
# prefix, moves that, and looks only at the moved tree from then on.
#
#     test_install.sh SOURCE-DIR BUILD-DIR C-COMPILER
set -u
source_dir=$1 build_dir=$2 cc=$3
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
outside=$source_dir/tests/install/outside
unset DLOCK_PLUGIN_PATH DLOCK_URI

check "cmake --install works" cmake --install "$build_dir" --prefix "$tap_tmp/first"
prefix=$tap_tmp/moved
mv "$tap_tmp/first" "$prefix"
lib=$(dirname "$(find "$prefix" -name libdlock.so)")
doc=$prefix/share/doc/dlock
export PKG_CONFIG_PATH=$lib/pkgconfig
unset LD_LIBRARY_PATH

# --- the programs, as they are ---

runs_with_the_moved_tree() {
    local backends
    backends=$("$prefix/bin/dlock" backends) && grep -F "$lib/dlock/dlock_sqlite.so" <<<"$backends"
}

# The recipe of docs/installing.md: no tests, and all programs.
recipe_has_the_kit() {
    local program
    cmake -S "$source_dir" -B "$tap_tmp/recipe" -G Ninja -DCMAKE_C_COMPILER="$cc" -DDLOCK_TESTS=OFF || return
    for program in dlock-bench dlock-conformance dlock-slot-check dlock-faultproxy dlock-torture; do
        ninja -C "$tap_tmp/recipe" -n "$program" &&
            grep -r "bin/$program\"" "$tap_tmp/recipe" --include=cmake_install.cmake || return
    done
}

check "dlock runs where it was put, with what was put beside it" runs_with_the_moved_tree
check "dlock-conformance runs where it was put" \
    "$prefix/bin/dlock-conformance" --only C1 memory://install
bench_finds_its_programs() {
    "$prefix/bin/dlock-bench" --quiet --rounds 1 --duration 100ms --workload run --limits >"$tap_tmp/bench" || return
    grep -E '^  a program with SQLite +[0-9.]+ ' "$tap_tmp/bench"
}
bench_has_no_rivals() {
    "$prefix/bin/dlock-bench" --peers
    same 64 $? && grep -q 'give bench/rivals of the source tree' "$tap_tmp/log"
}
check "dlock-bench runs where it was put, with the programs that it measures" bench_finds_its_programs
check "it says where the programs of other libraries are" bench_has_no_rivals
python_dir=$(sed -n 's/^DLOCK_PYTHON_INSTALL_DIR:.*=//p' "$build_dir/CMakeCache.txt")
python_looks_there() {
    local wanted
    wanted=$(sed -n 's/^CMAKE_INSTALL_PREFIX:.*=//p' "$build_dir/CMakeCache.txt")/$python_dir
    /usr/bin/python3 -c 'import site, sys; sys.exit(sys.argv[1] not in site.getsitepackages())' "$wanted"
}
python_finds_the_library_beside_it() {
    PYTHONPATH=$prefix/$python_dir /usr/bin/python3 -B -c 'import dlock, sys
with dlock.Lock("x", uri="memory://install") as lock: print(lock.fence, dlock._library.library._name)' |
        grep "^[1-9][0-9]* $lib/libdlock.so.0$"
}
check "the package of Python runs where it was put" python_finds_the_library_beside_it
check "the system's Python looks where it is put without --prefix" python_looks_there
check "the kit for authors is built and installed without the tests" recipe_has_the_kit
export LD_LIBRARY_PATH=$lib # what others build, they link as they like

mapfile -t elf_files < <(find "$prefix" -type f -print0 |
    xargs -0 grep -lE --binary-files=text -m 1 $'^\x7fELF' | sort)

# --- an application and a plugin from outside ---

pkg_config_consumer() {
    local flags
    flags=$(pkg-config --cflags --libs dlock) || return
    # shellcheck disable=SC2086
    "$cc" -std=c11 -o "$tap_tmp/consumer" "$outside/consumer.c" $flags
}

pkg_config_plugin() {
    mkdir -p "$tap_tmp/plugins"
    # shellcheck disable=SC2046
    "$cc" -std=c11 -shared -fPIC -o "$tap_tmp/plugins/dlock_toy.so" "$outside/toy.c" \
        $(pkg-config --cflags dlock)
}

refuses_toy() {
    "$tap_tmp/consumer" "toy://x"
    same 1 $? && grep -q 'toy://x: INVALID' "$tap_tmp/log"
}

find_package_project() {
    cmake -S "$outside" -B "$tap_tmp/outside" -G Ninja -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$tap_tmp/outside"
}

check "an application builds through pkg-config" pkg_config_consumer
check "pkg-config knows the plugin directory" \
    test -e "$(pkg-config --variable=plugindir dlock)/dlock_sqlite.so"
check "it finds the installed plugins: memory" "$tap_tmp/consumer" "memory://install"
check "it finds the installed plugins: sqlite" "$tap_tmp/consumer" "sqlite://$tap_tmp/locks.db"
check "a scheme without a plugin is refused" refuses_toy

check "a plugin builds against the installed headers alone" pkg_config_plugin
check "it is found through DLOCK_PLUGIN_PATH" \
    env DLOCK_PLUGIN_PATH="$tap_tmp/plugins" "$tap_tmp/consumer" "toy://x"

check "application and plugin build through find_package" find_package_project
refuses_another_series() {
    mkdir -p "$tap_tmp/series" || return
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(series LANGUAGES C)\nfind_package(dlock 0.1 REQUIRED)\n' >"$tap_tmp/series/CMakeLists.txt"
    ! cmake -S "$tap_tmp/series" -B "$tap_tmp/series/build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" &&
        grep -q 'dlock-config.cmake, version:' "$tap_tmp/log"
}
check "find_package of another minor version is refused while the major version is 0" refuses_another_series
check "that application runs" "$tap_tmp/outside/consumer" "memory://install"
check "that plugin loads" \
    env DLOCK_PLUGIN_PATH="$tap_tmp/outside" "$tap_tmp/outside/consumer" "toy://x"

# stock.c keeps its phones in MariaDB, whose library is here if the plugin was built.
examples_compile() {
    local program packages=dlock
    for program in hello loop_epoll stock; do
        [ "$program" != stock ] || packages='dlock libmariadb'
        [ -s "$doc/examples/$program.c" ] || { echo "examples/$program.c is not installed"; return 1; }
        [ "$program" != stock ] || [ -e "$lib/dlock/dlock_mysql.so" ] || continue
        # shellcheck disable=SC2046,SC2086 # a word each
        "$cc" -std=c11 -Wall -Wextra -Werror -D_GNU_SOURCE -o "$tap_tmp/$program" "$doc/examples/$program.c" \
            $(pkg-config --cflags --libs $packages) || return
    done
}
check "the installed examples compile against the installed tree" examples_compile
check "the smallest one runs" "$tap_tmp/hello" "sqlite://$tap_tmp/locks.db"

# The line of docs/installing.md, without LD_LIBRARY_PATH.
private_prefix() {
    local line
    line=$(sed -n 's/^    cc \(app.c .*rpath.*\)/\1/p' "$source_dir/docs/installing.md")
    cp "$doc/examples/hello.c" "$tap_tmp/app.c"
    (cd "$tap_tmp" && unset LD_LIBRARY_PATH PKG_CONFIG_PATH && export P=$prefix DLOCK_URI="sqlite://$tap_tmp/locks.db" && eval "'$cc' $line" && ./a.out)
}
check "the line of docs/installing.md links a program to a private prefix" private_prefix

# --- what is exported ---

version() {
    awk '/^#define DLOCK_VERSION_(MAJOR|MINOR|PATCH)/ { printf "%s%s", dot, $3; dot = "." }' "$prefix/include/dlock/version.h"
}

public_functions() {
    printf '#include <dlock/%s.h>\n' dlock metrics version |
        "$cc" -E -P -DDLOCK_BUILDING_LIBRARY -I"$prefix/include" -x c - | tr '\n' ' ' |
        tr ';' '\n' | grep 'visibility("default")' | grep -oE '\bdlock_[a-z_]+ ?\(' |
        tr -d ' (' | sort -u
}

exports() {
    nm -D --defined-only --format=posix "$1" | awk '$2 != "A" { sub("@.*", "", $1); print $1 }' | sort
}

check "the headers announce functions" test "$(public_functions | wc -l)" -gt 20
check "libdlock exports exactly what the headers announce" \
    same "$(public_functions)" "$(exports "$lib/libdlock.so")"
reference_has_all() {
    sed -n 's/^### //p' "$prefix/share/doc/dlock/docs/reference.md" | sort >"$tap_tmp/reference"
    same "" "$(uniq -d "$tap_tmp/reference")" && same "" "$(public_functions | comm -23 - "$tap_tmp/reference")"
}
check "the page of reference has what the headers announce" reference_has_all

# Each function has a page of section 3, its own or that of its group, which names it; so has each type.
functions_have_pages() {
    local function type page width
    while read -r type; do
        grep -qE '^\.SH (MEMBERS|VALUES)$' "$prefix/share/man/man3/$type.3" || { echo "no $type.3"; return 1; }
    done < <(cd "$prefix/include/dlock" && sed -nE 's/^(struct|enum) ([a-z_]+) \{.*/\2/p' dlock.h metrics.h types.h version.h)
    while read -r function; do
        page=$prefix/share/man/man3/$function.3
        [ -s "$page" ] || { echo "no $function.3"; return 1; }
        page=$prefix/share/man/$(sed -n 's/^\.so //p' "$page")
        [ -f "$page" ] || page=$prefix/share/man/man3/$function.3
        sed -n '/^\.SH NAME$/{n;p}' "$page" | grep -E "(^|, )${function}[ ,].*\\\\- [^ ]" && grep "^\.B.*[ *]$function(" "$page" && continue
        echo "$page does not name $function"
        return 1
    done < <(public_functions)
    for page in "$prefix"/share/man/man3/*.3; do
        grep -q '^\.so ' "$page" && continue
        grep -q "^\.TH .* \"dlock $(version)\"" "$page" || { echo "$page"; return 1; }
        for width in 70 80 90 100; do
            same "" "$(groff -man -t -Tutf8 "-rLL=${width}n" -ww -z "$page" 2>&1)" || return
        done
    done
}
pages_follow_the_headers() {
    local header
    for header in dlock metrics types version plugin; do
        ninja -C "$build_dir" -t query man3.stamp | grep -F "include/dlock/$header.h" || return
    done
}
check "each function and each type has a manual page, for lines of 70 to 100 columns" functions_have_pages
check "these pages are made again when a header has changed" pages_follow_the_headers
for plugin in "$lib"/dlock/dlock_*.so; do
    check "${plugin##*/} exports its entry alone" same dlock_plugin "$(exports "$plugin")"
done
check "so does what is loaded for TLS" same dlock_tls "$(exports "$lib/dlock/tls_for_dlock.so")"

# --- how it is linked ---

hardened() {
    local file=$1 dynamic headers
    local own='\(RUNPATH\) .*\[\$ORIGIN/\.\./[^]:.]*\]$' # from bin to the library of the same tree
    dynamic=$(readelf -dW "$file") && headers=$(readelf -lW "$file") || return
    [[ $file == "$prefix"/bin/* ]] && dynamic=$(grep -vE "$own" <<<"$dynamic")
    grep -E 'RPATH|RUNPATH|TEXTREL' <<<"$dynamic" && return 1
    grep -qE 'BIND_NOW|FLAGS.*NOW' <<<"$dynamic" || { echo "no BIND_NOW"; return 1; }
    grep -q GNU_RELRO <<<"$headers" || { echo "no RELRO"; return 1; }
    grep -E 'GNU_STACK.* RWE ' <<<"$headers" && return 1
    grep -q GNU_STACK <<<"$headers" || { echo "no GNU_STACK: executable"; return 1; }
    readelf -hW "$file" | grep -q 'Type:.*DYN' || { echo "not position-independent"; return 1; }
}

check "the library, two plugins and a program are installed" test "${#elf_files[@]}" -ge 4
for file in "${elf_files[@]}"; do
    check "${file#"$prefix"/} is hardened" hardened "$file"
done

# Pages that headers and manual page name.
pages_are_there() {
    local page missing=0
    [ -e "$doc/plugins/sqlite/README.md" ] && [ -e "$doc/examples/plugin-lockdir/README.md" ] || return
    while read -r page; do
        [ -e "$doc/$page" ] || { echo "$page is not installed"; missing=1; }
    done < <(cat "$prefix"/include/dlock/*.h "$prefix"/share/man/man1/dlock.1 |
        grep -oE 'docs/[a-z]+\.md' | sort -u)
    return "$missing"
}
check "the pages that are named are installed" pages_are_there

# Each program has a page in section 1, with its version and each option of its --help.
programs_have_pages() {
    local program page word width
    for program in "$prefix"/bin/*; do
        page=$prefix/share/man/man1/${program##*/}.1
        grep -q "^\.TH .* \"dlock $(version)\"" "$page" || { echo "$page"; return 1; }
        same "" "$(groff -man -t -ww -z "$page" 2>&1)" || return
        for width in 70 80 90 100; do
            same "" "$(groff -man -t -Tutf8 "-rLL=${width}n" -ww -z "$page" 2>&1)" || return
        done
        "$program" --help >"$tap_tmp/help" || return
        grep -q '^[uU]sage: ' "$tap_tmp/help" || return
        while read -r word; do
            grep -qF -- "${word//-/\\-}" "$page" || { echo "${page##*/} lacks $word"; return 1; }
        done < <(grep -oE -- '--[a-z][a-z-]+' "$tap_tmp/help" | sort -u)
    done
}
check "each program has a manual page, with all its options" programs_have_pages

versions_agree() {
    local series
    series=$(version)
    series=${series%.*}.0
    grep -q "This is version $(version)" "$source_dir/README.md" && grep -q "当前版本是 $(version)" "$source_dir/README.zh-CN.md" &&
        head -n 1 "$source_dir/debian/changelog" | grep -qF "dlock ($(version))" &&
        grep -q "^## \[$(version)\]" "$source_dir/CHANGELOG.md" &&
        same "$series" "$(awk 'NR > 1 { print $2 }' "$source_dir/tests/headers/libdlock0.symbols" | sort -u)" &&
        same "dlock $(version)" "$("$prefix/bin/dlock" --version)"
}
check "pages, packages and symbols have the version of version.h" versions_agree

check "no link of an installed page is dead, nor its heading" "$source_dir/tests/docs/links.sh" "$doc"

# --- README ---

# readme_block LANGUAGE: the lines of its block in README.md.
readme_block() {
    sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" "$doc/README.md" | sed '/^`/d'
}

# readme_program NAME SED: README's lines of C, changed by SED, in a program that says why it has no lock.
readme_program() {
    {
        cat <<'PROGRAM'
#include <dlock/dlock.h>
#include <stdio.h>

static bool write_report(uint64_t fence)
{
    return printf("fence %llu\n", (unsigned long long)fence) > 0;
}

int main(void)
{
    struct dlock_error err = DLOCK_ERROR_INIT;
    struct dlock_client *client = NULL;
    struct dlock_handle *lock = NULL;

PROGRAM
        readme_block c | sed "s/^/    /; $2"
        cat <<'PROGRAM'
    if (err.status != DLOCK_OK)
        fprintf(stderr, "no report: %s\n", err.message);
    dlock_free(lock);
    dlock_client_close(client);
    return err.status != DLOCK_OK;
}
PROGRAM
    } >"$tap_tmp/$1.c"
    # shellcheck disable=SC2046
    "$cc" -std=c11 -Wall -Wextra -Werror -o "$tap_tmp/$1" "$tap_tmp/$1.c" $(pkg-config --cflags --libs dlock)
}
readme_example() {
    readme_program readme '' && DLOCK_URI="sqlite://$tap_tmp/locks.db" "$tap_tmp/readme" >"$tap_tmp/readme.out" &&
        same "$(printf 'fence N\ndone')" "$(sed 's/[0-9][0-9]*$/N/' "$tap_tmp/readme.out")"
}
readme_example_says_why() {
    readme_program busy 's/10000/100/' &&
        "$prefix/bin/dlock" -u "sqlite://$tap_tmp/locks.db" run nightly -- sh -c "! '$tap_tmp/busy'" && grep -q '^no report: .' "$tap_tmp/log"
}
readme_python() {
    {
        printf 'import dlock\n\ndef write_report(fence):\n    print("fence", fence)\n\n'
        readme_block python
    } >"$tap_tmp/readme.py"
    same 3 "$(readme_block python | wc -l)" &&
        DLOCK_URI="sqlite://$tap_tmp/locks.db" PYTHONPATH=$prefix/$python_dir /usr/bin/python3 -B "$tap_tmp/readme.py"
}
check "README's example compiles without a warning, and runs" readme_example
check "it says why it has not the lock" readme_example_says_why
check "README's lines of Python run" readme_python

no_trace_of() {
    ! grep -rlF "$1" "$prefix"/{include,lib*/cmake,lib*/pkgconfig,lib*/*/cmake,lib*/*/pkgconfig} \
        2>/dev/null | grep ''
}
check "no installed text names the build directory" no_trace_of "$build_dir"
check "no installed text names the first prefix" no_trace_of "$tap_tmp/first"

# --- parts, and back again ---

sqlite_alone() {
    cmake -S "$source_dir" -B "$tap_tmp/alone" -G Ninja -DCMAKE_C_COMPILER="$cc" -DDLOCK_TESTS=OFF \
        -DDLOCK_PLUGINS=sqlite && ninja -C "$tap_tmp/alone" -n >"$tap_tmp/alone/steps" || return
    ! grep -iE 'hiredis|mariadb|openssl|-lssl' "$tap_tmp/alone/build.ninja" &&
        ninja -C "$tap_tmp/alone" -t targets all | grep '^plugins/dlock_sqlite.so:'
}
check "DLOCK_PLUGINS=sqlite builds that store, without the packages of the others" sqlite_alone

uninstalls() {
    cmake --install "$build_dir" --prefix "$tap_tmp/second" && [ -e "$tap_tmp/second/bin/dlock" ] || return
    cmake -DMANIFEST="$build_dir/install_manifest.txt" -P "$source_dir/cmake/uninstall.cmake" || return
    same "" "$(find "$tap_tmp/second" ! -type d)" && same "" "$(find "$tap_tmp/second" -name dlock)"
}
check "uninstall leaves nothing" uninstalls
tap_end
