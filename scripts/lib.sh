# shellcheck shell=bash
# Shared by the commands in this folder; sourced, with the top of the tree as working directory.
# Progress and complaints go to stderr, results to stdout.

export LC_ALL=C.UTF-8

if [ -t 2 ]; then
    bold=$'\e[1m' plain=$'\e[0m'
else
    bold='' plain=''
fi

# A heading, with the seconds since the command began.
say() {
    printf '%s[%3ds] %s%s\n' "$bold" "$SECONDS" "$*" "$plain" >&2
}

complain() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
}

# missing_packages KIND...: the packages of these kinds that are not installed.
missing_packages() {
    local kind package
    for kind in "$@"; do
        awk -v kind="$kind" '$1 == kind { print $2 }' scripts/packages
    done | while read -r package; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
            echo "$package"
    done
}

# install_packages PACKAGE...
install_packages() {
    local log as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            complain "run as root first: apt-get install $*"
            return 1
        fi
        as_root=(sudo)
    fi
    say "installing $*"
    log=$("${as_root[@]}" sh -c 'apt-get update -q; exec env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "$@"' sh "$@" 2>&1) && return 0
    printf '%s\n' "$log" >&2
    return 1
}

# need_packages KIND...: installs what is missing; fails if that is not possible.
need_packages() {
    local missing
    if ! command -v dpkg-query >/dev/null; then
        say "not a Debian system: install the equivalents of scripts/packages yourself"
        return 0
    fi
    mapfile -t missing < <(missing_packages "$@")
    [ "${#missing[@]}" -eq 0 ] || install_packages "${missing[@]}"
}

# lint_packages: installs what this version of Debian has of them. scripts/lint says what is not there.
lint_packages() {
    local package there=()
    for package in $(missing_packages lint); do
        ! apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]' || there+=("$package")
    done
    [ "${#there[@]}" -eq 0 ] || install_packages "${there[@]}"
}

# configure PRESET [CMAKE-OPTION...]. A cache made by another cmake, or for another path, is thrown
# away.
configure() {
    local log
    log=$(cmake --preset "$@" 2>&1) && return 0
    log=$(cmake --fresh --preset "$@" 2>&1) && return 0
    printf '%s\n' "$log" >&2
    return 1
}

# build PRESET [--target TARGET...]: shows ninja's one line of progress on a terminal, and nothing but errors elsewhere.
build() {
    local quiet=()
    [ -t 2 ] || quiet=(-- --quiet)
    cmake --build --preset "$1" -j "$(nproc)" "${@:2}" "${quiet[@]}" >&2
}

# mount_devices ROOT: what programs in it need of /dev and /proc, and nothing of this system's own, so that ROOT
# may be removed. Call it in a mount space that ends with the program.
mount_devices() {
    local name
    mount -t tmpfs none "$1/dev" && mkdir -m 1777 "$1/dev/shm" && mkdir "$1/dev/pts" && mount -t proc proc "$1/proc" &&
        mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts" && ln -s pts/ptmx "$1/dev/ptmx" &&
        ln -s /proc/self/fd "$1/dev/fd" && ln -s fd/0 "$1/dev/stdin" && ln -s fd/1 "$1/dev/stdout" &&
        ln -s fd/2 "$1/dev/stderr" || return
    for name in null:3 zero:5 full:7 random:8 urandom:9; do
        mknod -m 666 "$1/dev/${name%:*}" c 1 "${name#*:}" || return
    done
    mknod -m 666 "$1/dev/tty" c 5 0
}

# source_files DIR PATTERN...: the project's files below DIR whose names match, one a line.
source_files() {
    local dir=$1 pattern names=()
    shift
    for pattern in "$@"; do
        names+=(-o -name "$pattern")
    done
    (cd "$dir" && find . \( -name .git -o -path './build*' \) -prune -o \
        -type f \( "${names[@]:1}" \) -print) | sed 's,^\./,,' | sort
}
