#!/bin/bash
# interop.sh SOURCE-DIR BIN-DIR PORT TURNS: C1, C12 and C13 between `dlock run`, kazoo's locks and Curator's,
# which wait in one queue below one node and add to one number in a file. Also, so that these tests are
# known to see two holders: locks that do not exclude each other.
set -u
source_dir=$1 dlock=$2/dlock port=$3 turns=$4
here=$source_dir/tests/plugins/zookeeper
# shellcheck source=tests/kit/tap.sh
. "$source_dir/tests/kit/tap.sh"
cd "$tap_tmp" || exit 1
server=127.0.0.1:$port

# The compiler is a module that each Java has; its command is not.
class_path=$tap_tmp
for jar in curator-recipes curator-framework curator-client zookeeper zookeeper-jute guava \
    slf4j-api slf4j-nop; do
    class_path+=:/usr/share/java/$jar.jar
done
java -m jdk.compiler/com.sun.tools.javac.Main -cp "$class_path" -d "$tap_tmp" "$here/ByCurator.java" || exit 1

by_curator() {
    java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx64m -cp "$class_path" ByCurator "$server" "$@"
}

by_kazoo() {
    "$here/by_kazoo.py" "$server" "$@"
}

# by_dlock NAME TURNS RECIPE[+reader] COMMAND...
by_dlock() {
    local name=$1 count=$2 recipe=${3%+reader} options=(--wait 60s) i

    [ "$recipe" = "$3" ] || options+=(--shared)
    shift 3
    if [ -n "${GATE-}" ]; then
        : >"$GATE.$BASHPID"
        until [ -e "$GATE" ]; do sleep 0.002; done
    fi
    for ((i = 0; i < count; i++)); do
        "$dlock" run -u "zk://$server/locks?recipe=$recipe" "${options[@]}" "$name" -- "$@" || return
    done
}

# contender WHO NAME TURNS COMMAND...: WHO is a program and its lock, as "curator:mutex".
contender() {
    local who=$1 name=$2 count=$3
    shift 3
    case $who in
    dlock:*) by_dlock "$name" "$count" "${who#*:}" "$@" ;;
    kazoo:*) by_kazoo "/locks/$name" "$count" "${who#*:}" "$@" ;;
    curator:*) by_curator "/locks/$name" "$count" "${who#*:}" "$@" ;;
    esac
}

# nodes NAME COUNT: waits until the name has so many holders and waiters.
nodes() {
    by_kazoo "/locks/$1" "$2" children
}

# Reads, lets others run, writes.
cat >add <<'END_OF_ADD'
n=$(cat number)
sleep 0.002
echo $((n + 1)) >number
END_OF_ADD

gate_open() {
    local i files=()

    for ((i = 0; i < 3000; i++)); do
        mapfile -t files < <(compgen -G 'gate.*')
        if [ "${#files[@]}" -eq "$1" ]; then
            : >gate
            return
        fi
        sleep 0.02
    done
    : >gate
    echo "${#files[@]} of $1 have begun"
    return 1
}

# all_add NAME TURNS WHO...: the contenders begin together, and add one in each turn. Fails if a
# program does.
all_add() {
    local name=$1 count=$2 who pids=() status=0 i
    shift 2

    echo 0 >number
    rm -f gate gate.*
    for who; do
        GATE=$tap_tmp/gate contender "$who" "$name" "$count" bash add &
        pids+=($!)
    done
    gate_open $# || status=1
    for ((i = 0; i < $#; i++)); do
        wait "${pids[i]}" || { status=1; echo "a program of these failed: $*"; }
    done
    return "$status"
}

# adds NAME WHO...: no addition is lost, and nobody's node is left.
adds() {
    all_add "$1" "$turns" "${@:2}" && same $((($# - 1) * turns)) "$(cat number)" && nodes "$1" 0
}

# loses NAME WHO...: additions are lost, although no program fails.
loses() {
    all_add "$1" 25 "${@:2}" && echo "$(cat number) of $((($# - 1) * 25))" &&
        [ "$(cat number)" -lt $((($# - 1) * 25)) ]
}

# holder WHO NAME: holds the name as long as the file go is there.
holder() {
    contender "$1" "$2" 1 bash -c 'while [ -e go ]; do sleep 0.02; done; echo first >>order'
}

# in_order NAME WHO...: they come one by one while the first holds the name, and get it in that order.
in_order() {
    local name=$1 first=$2 who i=1 pids=() pid status=0 wanted=first
    shift 2

    : >order
    : >go
    holder "$first" "$name" &
    pids+=($!)
    nodes "$name" 1 || status=1
    for who; do
        contender "$who" "$name" 1 bash -c "echo $i >>order" &
        pids+=($!)
        wanted+=" $i"
        i=$((i + 1))
        nodes "$name" "$i" || status=1
    done
    rm go
    for pid in "${pids[@]}"; do
        wait "$pid" || status=1
    done
    same "$wanted" "$(paste -sd ' ' order)" && return "$status"
}

# meet NAME FIRST SECOND UNTIL...: SECOND comes while FIRST holds the name, which FIRST does until the
# command has ended. The file order says who went out first.
meet() {
    local name=$1 first=$2 second=$3 status=0 first_pid second_pid
    shift 3

    : >order
    : >go
    holder "$first" "$name" &
    first_pid=$!
    nodes "$name" 1 || status=1
    contender "$second" "$name" 1 bash -c 'echo second >>order' &
    second_pid=$!
    "$@" || status=1
    rm go
    wait "$first_pid" || status=1
    wait "$second_pid" || status=1
    return "$status"
}

two_are_there() {
    nodes "$1" 2 && sleep 0.3
}

second_was_there() {
    local i

    for ((i = 0; i < 600; i++)); do
        ! [ -s order ] || return 0
        sleep 0.05
    done
    echo 'the second one waits'
    return 1
}

# waits NAME FIRST SECOND; passes NAME FIRST SECOND
waits() {
    meet "$1" "$2" "$3" two_are_there "$1" && same 'first second' "$(paste -sd ' ' order)"
}

passes() {
    meet "$1" "$2" "$3" second_was_there && same 'second first' "$(paste -sd ' ' order)"
}

# waits_both NAME ONE OTHER
waits_both() {
    waits "$1" "$2" "$3" && waits "$1" "$3" "$2"
}

passes_both() {
    passes "$1" "$2" "$3" && passes "$1" "$3" "$2"
}

check "C1 recipe=curator and Curator's mutex lose no addition in $turns turns each" \
    adds mutex dlock:curator curator:mutex
check "C1 nor do recipe=curator and kazoo's Lock with the pattern -lock-" \
    adds pattern dlock:curator kazoo:Lock,-lock-
check "C1 nor do recipe=kazoo and kazoo's Lock" adds kazoo dlock:kazoo kazoo:Lock
check "C1 nor do recipe=curator-rw and Curator's write lock" adds write dlock:curator-rw curator:write
check "C1 nor do recipe=curator-rw and kazoo's Lock with the patterns __WRIT__ and __READ__" \
    adds patterns dlock:curator-rw kazoo:Lock,__WRIT__,__READ__
check "C1 nor do the three recipes of dlock" adds three dlock:curator-rw dlock:curator dlock:kazoo

check "Curator's mutex and kazoo's Lock do" loses apart curator:mutex kazoo:Lock
check 'and so they do with the pattern -lock-' loses apart_too curator:mutex kazoo:Lock,-lock-
check "recipe=curator-rw and Curator's mutex do" loses apart_rw dlock:curator-rw curator:mutex

check "C13 recipe=curator and Curator's mutex get the name in the order of arrival" in_order order_mutex \
    dlock:curator curator:mutex dlock:curator curator:mutex dlock:curator
check "C13 so do recipe=curator and kazoo's Lock with the pattern -lock-" in_order order_pattern \
    kazoo:Lock,-lock- dlock:curator kazoo:Lock,-lock- dlock:curator kazoo:Lock,-lock- dlock:curator
check "C13 and recipe=kazoo and kazoo's Lock" in_order order_kazoo \
    dlock:kazoo kazoo:Lock dlock:kazoo kazoo:Lock dlock:kazoo kazoo:Lock
check "C13 and recipe=curator-rw and Curator's write lock" in_order order_write \
    curator:write dlock:curator-rw curator:write dlock:curator-rw

check "C12 a reader of dlock and Curator's write lock wait for each other" \
    waits_both reader_write dlock:curator-rw+reader curator:write
check "C12 so do a writer of dlock and Curator's read lock" waits_both writer_read dlock:curator-rw curator:read
check "C12 readers of both hold the name together" passes_both readers dlock:curator-rw+reader curator:read
check "C12 a reader of recipe=kazoo and kazoo's WriteLock wait for each other" \
    waits_both kazoo_write dlock:kazoo+reader kazoo:WriteLock
check "C12 so do a reader of recipe=curator-rw and kazoo's Lock with the patterns" \
    waits_both kazoo_patterns dlock:curator-rw+reader kazoo:Lock,__WRIT__,__READ__
check "C12 so do a writer of recipe=kazoo and kazoo's ReadLock" \
    waits_both kazoo_read dlock:kazoo kazoo:ReadLock
check "C12 readers of both hold the name together" passes_both kazoo_readers dlock:kazoo+reader kazoo:ReadLock

# dlock is the one that waits, whatever the recipe.
check "C1 recipe=curator-rw waits for Curator's mutex" waits mixed curator:mutex dlock:curator-rw
check "C1 recipe=curator-rw waits for kazoo's Lock" waits mixed_kazoo kazoo:Lock dlock:curator-rw
check "C1 recipe=kazoo waits for Curator's read lock" waits mixed_read curator:read dlock:kazoo
check "but Curator's mutex does not wait for recipe=curator-rw" passes mixed_not dlock:curator-rw curator:mutex
check "nor does kazoo's Lock for a reader of recipe=kazoo" passes mixed_reader dlock:kazoo+reader kazoo:Lock
tap_end
