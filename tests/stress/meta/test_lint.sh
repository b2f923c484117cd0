#!/bin/bash
# Does scripts/lint see what it looks for? Breaks each rule once, in a small tree of its own, and
# wants that rule, and no other, to complain.
#
#     test_lint.sh SOURCE-DIR
set -u
source_dir=$1
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"

good_tree() {
    rm -rf "$tap_tmp/tree"
    mkdir -p "$tap_tmp/tree"/{core/{api,session},plugins/p,cli,include/dlock,tests}
    cp "$source_dir"/.clang-{format,tidy} "$tap_tmp/tree"
    cat >"$tap_tmp/tree/core/good.c" <<'END'
/* SPDX-License-Identifier: MIT */
/* strcpy(a, b) and ops->open() in a comment are no calls. */
#include <stdio.h>

int good(const struct ops *ops)
{
    return ops->open == NULL ? puts("atoi(\"1\") // in a string") : 0;
}
END
    echo 'See [it](good.c), `core/good.c`, [a page](https://example.org).' >"$tap_tmp/tree/core/README.md"
}

# complaints: the rules that failed, joined by semicolons.
complaints() {
    "$source_dir/scripts/lint" --quick "$tap_tmp/tree" |
        sed -n 's/^not ok [0-9]* - //p' | paste -sd ';'
}

# sees RULE FILE TEXT: with this text as FILE, that rule alone complains.
sees() {
    good_tree
    printf '%s\n' "$3" >"$tap_tmp/tree/$2"
    check "sees: $1 ($2)" same "$1" "$(complaints)"
}

# sees_code RULE FILE LINE: the same with a C file that ends in LINE.
sees_code() {
    sees "$1" "$2" "/* SPDX-License-Identifier: MIT */"$'\n'"$3"
}

# repeated N TEXT
repeated() {
    local i
    for ((i = 0; i < $1; i++)); do
        printf '%s\n' "$2"
    done
}

file_of() {
    printf '/* SPDX-License-Identifier: MIT */\nextern int a;\n'
    repeated $(($1 - 2)) '/* line */'
}

function_of() {
    printf '/* SPDX-License-Identifier: MIT */\nint f(void)\n{\n'
    repeated "$1" '    f();'
    printf '}\n'
}

good_tree
check "a good tree passes" same "" "$(complaints)"

sees_code "no banned call" core/a.c 'int a = atoi(b);'
sees_code "no banned call" tests/a.c 'int a = strcpy(b, c);'
sees_code "no banned call" plugins/p/a.h 'int a = vsprintf(b, c, d);'
sees_code "libltdl is used in core/load/loader.c alone" cli/a.c '#include <ltdl.h>'
rule="the plugin table is called from core/session/dispatch.c alone"
sees_code "$rule" core/api/api.c 'int a = x->ops->open(y);'
sees_code "$rule" core/api/api.c 'int a = plugin.ops.open(y);'
sees_code "core reads time and chance through its seams" core/a.c 'int a = clock_gettime(b, c);'
sees_code "core includes no driver" core/a.c '#include <sqlite3.h>'
sees_code "plugins include nothing of core" plugins/p/plugin.c '#include <dlock/dlock.h>'
sees_code "plugins include nothing of core" plugins/p/plugin.c '#include "sys/clock.h"'
sees_code "commands and benchmarks use the public interface" cli/main.c '#include <dlock/plugin.h>'
sees "no file above 500 lines" core/a.c "$(file_of 501)"
sees "no function above 60 lines" core/a.c "$(function_of 61)"
sees_code "nothing is marked as left to do" core/a.c '/* TODO */'
sees "each C file names the licence" core/a.c 'extern int a;'
sees "no tab and no space at the end of a line" tests/x.cmake '# x '
sees "pages name files that exist" README.md 'See [this](docs/none.md).'
sees "pages name files that exist" cli/README.md 'See [that](good.c) and `core/good.c`, `core/none.c`.'
sees_code "clang-format has nothing to change" core/a.c 'int  a;'
sees "shellcheck has nothing to say" tests/x.sh '#!/bin/sh'$'\n''echo $1'

# tidy_of LINE: the rules that fail, clang-tidy included, for a program with this line.
tidy_of() {
    good_tree
    mkdir -p "$tap_tmp/tree/build/dev"
    printf '/* SPDX-License-Identifier: MIT */\n\nint main(int n, char **args)\n{\n    %s\n}\n' \
        "$1" >"$tap_tmp/tree/cli/main.c"
    printf '[\n{\n  "directory": "%s",\n  "command": "%s",\n  "file": "%s"\n}\n]\n' \
        "$tap_tmp/tree" "gcc -c cli/main.c" "$tap_tmp/tree/cli/main.c" \
        >"$tap_tmp/tree/build/dev/compile_commands.json"
    "$source_dir/scripts/lint" "$tap_tmp/tree" | sed -n 's/^not ok [0-9]* - //p' | paste -sd ';'
}

rule="clang-tidy has nothing to say"
check "a clean program passes clang-tidy" same "" "$(tidy_of 'return n + args[0][0];')"
check "sees: $rule" same "$rule" "$(tidy_of 'return n == n && args;')"

# The limits themselves pass.
good_tree
file_of 500 >"$tap_tmp/tree/core/a.c"
function_of 60 >"$tap_tmp/tree/core/b.c"
printf '/* SPDX-License-Identifier: MIT */\n%s\n' 'int a = x->ops->open(y);' \
    >"$tap_tmp/tree/core/session/dispatch.c"
check "a file and a function at the limit pass" same "" "$(complaints)"
tap_end
