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
    mkdir -p "$tap_tmp/tree"/{core/{api,acquire,client,hold,session,sys},plugins/{p,q,redis,resp},bench,cli,docs,lib,include/dlock,tests}
    cp "$source_dir"/.clang-{format,tidy} "$tap_tmp/tree"
    cat >"$tap_tmp/tree/core/good.c" <<'END'
/* SPDX-License-Identifier: MIT */
/* strcpy(a, b) and ops->open() in a comment are no calls. */
#include <stdio.h>

int dl_good(const struct ops *ops)
{
    return ops->open == NULL ? puts("atoi(\"1\") // in a string") : 0;
}
END
    printf '%s\n' '## Old words' '| old word | write |' '|---|---|' '| keeper, sleeper | `renewer` |' \
        >"$tap_tmp/tree/docs/glossary.md"
    # All folders that a test here makes files in.
    printf '%s\n' '## The picture' '```' 'cli/' ' core' 'core/hold' 'core/api' 'core/client' 'core/session' \
        'core/sys' 'plugins/p plugins/q plugins/redis' 'plugins/resp' ' lib' '```' >"$tap_tmp/tree/docs/architecture.md"
    echo 'See [it](good.c), `core/good.c`, [a page](https://example.org).' >"$tap_tmp/tree/core/README.md"
}

# A test that names each file of the product.
name_them() {
    (cd "$tap_tmp/tree" && find core cli plugins lib -name '*.c' -printf '/* Tests: %p */\n' |
        sed '1i/* SPDX-License-Identifier: MIT */' >tests/test_all.c)
}

# complaints: the rules that failed, joined by semicolons.
complaints() {
    [ "${named-yes}" = no ] || name_them
    "$source_dir/scripts/lint" --quick "$tap_tmp/tree" |
        sed -n 's/^not ok [0-9]* - //p' | paste -sd ';'
}

# sees RULE FILE TEXT: with this text as FILE, that rule alone complains.
sees() {
    good_tree
    printf '%s\n' "$3" >"$tap_tmp/tree/$2"
    check "sees: ${1:-nothing} ($2)" same "$1" "$(complaints)"
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
    printf '/* SPDX-License-Identifier: MIT */\nint %s(void)\n{\n' "$2"
    repeated "$1" "    $2();"
    printf '}\n'
}

good_tree
check "a good tree passes" same "" "$(complaints)"

sees_code "no banned call" core/a.c 'int a = atoi(b);'
sees_code "no banned call" tests/a.c 'int a = strcpy(b, c);'
sees_code "no banned call" plugins/p/a.h 'int a = vsprintf(b, c, d);'
sees_code "libltdl is used in core/load/loader.c alone" cli/a.c '#include <ltdl.h>'
rule="the plugin table is called from core/session/slot.c alone"
sees_code "$rule" core/api/api.c 'int a = x->ops->open(y);'
sees_code "$rule" core/api/api.c 'int a = plugin.ops.open(y);'
sees_code "core reads time and chance through its seams" core/a.c 'int a = clock_gettime(b, c);'
rule="the ruler judges upper bounds of time"
sees_code "$rule" tests/a.c 'cr_assert_lt(dlt_host_now(&s.host) - begin, 5000);'
sees_code "$rule" tests/a.c 'cr_expect_leq(took_ms, 5000);'
sees_code "$rule" tests/a.c 'DLT_CHECK(dlt_ms_since(start_ns) < 5000, "late");'
sees_code "$rule" tests/a.c 'if (dlt_ms_since(start_ns) > (double)run->slack_ms)'
sees_code "$rule" tests/a.c 'if (now_ms() - *since_ms > SLACK_MS)'
sees_code "$rule" tests/a.c 'cr_assert(ms >= 95 && ms < 3000);'
sees_code "$rule" tests/a.c 'cr_assert_lt((w.done_ns - begin_ns) / DLT_NS_PER_MS, 5000);'
sees "$rule" tests/a.sh $'#!/bin/bash\nbegan=0\n[ $(($(now_ms) - began)) \055le 5000 ]'
sees "$rule" tests/a.sh $'#!/bin/bash\ntook=$1\nbetween 900 "$took" 5000'
sees "$rule" tests/a.py 'assert time.monotonic() - begun < 5'
sees "$rule" tests/a.py 'self.assertLess(took, 5)'
sees_code "core includes no driver" core/a.c '#include <sqlite3.h>'
sees_code "plugins include nothing of core" plugins/p/plugin.c '#include <dlock/dlock.h>'
sees_code "plugins include nothing of core" plugins/p/plugin.c '#include "sys/clock.h"'
sees_code "commands and benchmarks use the public interface" cli/main.c '#include <dlock/plugin.h>'
sees "no file above 900 lines" core/a.c "$(file_of 901)"
sees "no function above 60 lines" core/a.c "$(function_of 61 dl_a)"
sees_code "nothing is marked as left to do" core/a.c '/* TODO */'
sees "each C file names the licence" core/a.c 'extern int a;'
sees "no tab and no space at the end of a line" tests/x.cmake '# x '
sees "pages name files that exist" README.md 'See [this](docs/none.md).'
sees "pages name files that exist" cli/README.md 'See [that](good.c) and `core/good.c`, `core/none.c`.'
sees "pages name functions that exist" README.md 'See `dl_good`, `dl_gone()` and `good`.'

# budget RULE WHAT LINE: with this line in scripts/pages.budget. README.md has two words, in a line of 102 columns.
budget() {
    good_tree
    mkdir "$tap_tmp/tree/scripts"
    rm "$tap_tmp/tree/docs/glossary.md"
    printf 'a %0100d\n' 0 >"$tap_tmp/tree/README.md"
    printf '%s\n' '100 100 0 docs/architecture.md' "$3" >"$tap_tmp/tree/scripts/pages.budget"
    check "sees: ${1:-nothing} ($2)" same "$1" "$(complaints)"
}
rule="pages keep to their budget of words and columns"
budget "" "at the limits" '2 2 1 README.md'
budget "$rule" "too many words" '1 1 1 README.md'
budget "$rule" "a line that is too long" '2 2 0 README.md'
budget "$rule" "a page without a line" '2 2 1 docs/other.md'
if command -v clang-format-14 >/dev/null; then
    sees_code "clang-format has nothing to change" core/a.c 'int  a;'
else
    skip "sees: clang-format has nothing to change" "clang-format-14 is not installed"
fi
sees "shellcheck has nothing to say" tests/x.sh '#!/bin/sh'$'\n''echo $1'

# sees_files RULE WHAT [FILE LINE]...: with these C files, that rule alone complains.
sees_files() {
    local rule=$1 what=$2
    shift 2
    good_tree
    while [ $# -gt 0 ]; do
        mkdir -p "$tap_tmp/tree/${1%/*}"
        printf '/* SPDX-License-Identifier: MIT */\n%s\n' "$2" >"$tap_tmp/tree/$1"
        shift 2
    done
    check "sees: ${rule:-nothing} ($what)" same "$rule" "$(complaints)"
}

calls() {
    printf 'int %s(void)\n{\n    return %s();\n}' "$1" "$2"
}

rule="a folder includes those below it, and no plugin another"
picture="docs/architecture.md shows which folder includes which"
sees_files "" "downward" core/client/a.h 'extern int a;' core/hold/b.c '#include "client/a.h"'
sees_files "$rule;$picture" "upward" core/hold/a.h 'extern int a;' core/client/b.c '#include "hold/a.h"'
sees_files "$rule;$picture" "another plugin" plugins/p/a.h 'extern int a;' plugins/q/b.c '#include "../p/a.h"'
sees_files "$rule;$picture" "another plugin by its name alone" plugins/p/a.h 'extern int a;' plugins/q/b.c '#include "a.h"'
sees_files "$rule;$picture" "resp of redis" plugins/redis/a.h 'extern int a;' plugins/resp/b.c '#include "redis/a.h"'
sees_files "$rule" "upward inside a plugin" plugins/redis/call/a.h 'extern int a;' plugins/redis/link/b.c '#include "redis/call/a.h"'
sees_files "$rule;commands and benchmarks use the public interface" "the command of core" \
    core/sys/a.h 'extern int a;' cli/b.c '#include "core/sys/a.h"'

sees_files "$rule;$picture" "upward beside the search path" core/hold/a.h 'extern int a;' core/client/b.c '#include "../hold/a.h"'
sees_files "$rule" "upward without an include" core/hold/a.c "$(calls dl_a puts)" core/client/b.c "$(calls dl_b dl_a)"
sees_files "$picture" "a folder that is not drawn" core/acquire/a.c 'extern int a;'
sees_files "$picture" "a folder that is drawn above" core/hold/a.h 'extern int a;' core/api/b.c '#include "hold/a.h"'

rule="no cycle of files inside a folder"
sees_files "" "one way" core/hold/a.c "$(calls dl_a dl_b)" core/hold/b.c "$(calls dl_b puts)"
sees_files "$rule" "two files" core/hold/a.c "$(calls dl_a dl_b)" core/hold/b.c "$(calls dl_b dl_a)"
sees_files "$rule" "three files" core/hold/a.c "$(calls dl_a dl_b)" \
    core/hold/b.c "$(calls dl_b dl_c)" core/hold/c.c "$(calls dl_c dl_a)"
sees_files "$rule" "two headers" core/hold/a.h '#include "hold/b.h"' core/hold/b.h '#include "hold/a.h"'

rule="a function begins with the name of its file"
sees_files "" "of the file" core/hold/a_b.c "$(calls dl_a_b_take puts)"
sees_files "" "of a structure in it" core/hold/a_b.c $'struct dl_c {\n    int d;\n};\n'"$(calls dl_c_take puts)"
sees_files "$rule" "of another" core/hold/a_b.c "$(calls dl_c_take puts)"
sees_files "" "a topic of lib" lib/a.c "$(calls dl_b_take puts)"
sees_files "$rule" "no topic of lib" lib/a.c "$(calls b_take puts)"
sees_files "$rule" "of the file, without dl" core/hold/a.c "$(calls a_take puts)"
sees_files "$rule" "public, in a plugin" plugins/p/a.c "$(calls dlock_a_take puts)"
sees_files "$rule" "the name without an end" core/hold/a.c "$(calls dl_about puts)"

rule="a function named _locked is called with the mutex, and takes none"
take='    pthread_mutex_lock(m);' give='    pthread_mutex_unlock(m);'
body() {
    printf 'int %s(void)\n{\n%s\n}' "$1" "$2"
}
sees_files "" "by one that locks" core/hold/a.c "$(body dl_a "$take"$'\n    dl_b_locked();\n'"$give")"
sees_files "" "by a _locked one" core/hold/a.c "$(body dl_a_locked '    dl_b_locked();')"
sees_files "$rule" "without" core/hold/a.c "$(body dl_a '    dl_b_locked();')"
sees_files "$rule" "before it locks" core/hold/a.c "$(body dl_a '    dl_b_locked();'$'\n'"$take"$'\n'"$give")"
sees_files "$rule" "takes it by a short name" core/hold/a.c "$(body dl_a_locked '    lock(m);')"
sees_files "$rule" "takes it" core/hold/a.c "$(body dl_a_locked "$take")"
sees_files "" "gives it back for a while" core/hold/a.c "$(body dl_a_locked "$give"$'\n'"$take")"

rule="no old word of the glossary in a name"
sees_files "" "in a comment" core/hold/a.c '/* the keeper */'
sees_files "$rule" "a variable" core/hold/a.c 'extern int late_keeper;'
sees_files "$rule" "several" core/hold/a.c 'extern int sleepers;'
sees_files "$rule" "with a number" core/hold/a.c 'extern int keeper2;'
sees_files "$rule" "a type" core/hold/a.c 'struct dl_keeper;'
sees_files "$rule" "a file" core/hold/keeper.c 'extern int a;'
sees_files "$rule" "a benchmark" bench/a.c 'extern int keeper;'
sees_files "$rule" "a file of a benchmark" bench/keeper.c 'extern int a;'
sees_files "" "a function of a benchmark, whose name is free" bench/a.c "$(calls b_take puts)"
sees "$rule" plugins/redis/a.lua 'local late_keeper = 1'
sees "" plugins/redis/a.lua "local a = 'keeper' .. \"keeper\" -- the keeper"

rule="a test names each file of the product"
named=no sees_files "$rule" "no test" tests/test_b.c '/* Tests: core/a.c */'
named=no sees_files "$rule" "a test of a file that is gone" tests/test_b.c \
    '/* Tests: core/good.c core/gone.c */'
named=no sees_files "" "a script" tests/test_b.c '/* Tests: core/good.c */'

# tidy_of LINE: the rules that fail, clang-tidy included, for a program with this line.
tidy_of() {
    good_tree
    mkdir -p "$tap_tmp/tree/build/dev"
    printf '/* SPDX-License-Identifier: MIT */\n\nint main(int n, char **args)\n{\n    %s\n}\n' \
        "$1" >"$tap_tmp/tree/cli/main.c"
    printf '[\n{\n  "directory": "%s",\n  "command": "%s",\n  "file": "%s"\n}\n]\n' \
        "$tap_tmp/tree" "gcc -c cli/main.c" "$tap_tmp/tree/cli/main.c" \
        >"$tap_tmp/tree/build/dev/compile_commands.json"
    name_them
    "$source_dir/scripts/lint" "$tap_tmp/tree" | sed -n 's/^not ok [0-9]* - //p' | paste -sd ';'
}

rule="clang-tidy has nothing to say"
if command -v clang-tidy-14 >/dev/null; then
    check "a clean program passes clang-tidy" same "" "$(tidy_of 'return n + args[0][0];')"
    check "sees: $rule" same "$rule" "$(tidy_of 'return n == n && args;')"
else
    skip "sees: $rule" "clang-tidy-14 is not installed"
fi

# The limits themselves pass.
good_tree
file_of 500 >"$tap_tmp/tree/core/a.c"
function_of 60 dl_b >"$tap_tmp/tree/core/b.c"
printf '/* SPDX-License-Identifier: MIT */\n%s\n' 'int a = x->ops->open(y);' \
    >"$tap_tmp/tree/core/session/slot.c"
check "a file and a function at the limit pass" same "" "$(complaints)"
tap_end
