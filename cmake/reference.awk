# Writes docs/reference.md from the public headers: each function with its comment, in their order.
#
#     awk -f reference.awk HEADER...
BEGIN {
    print "# Reference\n"
    print "After this page you know what each function of dlock does. It is made from the headers in `include/dlock/`,"
    print "which also have the structures. `C5` and such are clauses of [guarantees.md](guarantees.md)."
}

FNR == 1 {
    count = split(FILENAME, path, "/")
    header = path[count]
    comment = ""
}

# A comment of several lines, or of one.
/^\/\*/ { comment = ""; inside = 1 }
inside {
    line = $0
    sub(/^\/\*+ ?/, "", line)
    sub(/^ \*\/$/, "", line)
    sub(/ \*\/$/, "", line)
    sub(/^ \* ?/, "", line)
    comment = comment line "\n"
}
inside && /\*\// { inside = 0; next }
inside { next }

/^DLOCK_API/ || /^static inline .*dlock_/ { prototype = ""; reading = 1 }
reading {
    line = $0
    sub(/^(DLOCK_API|static inline) (DLOCK_MUST )?/, "", line)
    sub(/^ +/, "    ", line)
    if (line == "{") {
        sub(/\n$/, "", prototype)
        line = ";"
    }
    prototype = prototype line "\n"
}
reading && /;|^\{/ {
    reading = 0
    name = prototype
    sub(/\(.*/, "", name)
    sub(/^.*[ *\n]/, "", name)
    gsub(/^\n+|\n+$/, "", comment)
    if (header != last)
        printf "\n## %s\n", header
    last = header
    printf "\n### %s\n\n```\n%s```\n", name, prototype
    if (comment != "")
        printf "\n```text\n%s\n```\n", comment
    comment = ""
    next
}
!reading && /[^ ]/ { comment = "" }
