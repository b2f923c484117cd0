# Reads the public headers. The caller has function_read(header, name, prototype, comment): a function, in the order
# of the files. A function below another one, without a comment of its own, has the comment "".
# And header_read(header, comment): the comment with which a header begins.
#
#     awk -f headers.awk -f CALLER HEADER...
FNR == 1 {
    count = split(FILENAME, path, "/")
    header = path[count]
    comment = ""
    comments = 0
}

# A comment of several lines, or of one.
/^\/\*/ { comment = ""; inside = 1; comments++ }
inside {
    line = $0
    sub(/^\/\*+ ?/, "", line)
    sub(/^ \*\/$/, "", line)
    sub(/ \*\/$/, "", line)
    sub(/^ \* ?/, "", line)
    comment = comment line "\n"
}
inside && /\*\// {
    inside = 0
    if (comments == 2) # the first one is the licence
        header_read(header, comment)
    next
}
inside { next }

/^DLOCK_API/ || /^(__attribute__.* )?static inline / { prototype = ""; reading = 1 }
reading {
    line = $0
    sub(/^__attribute__\(\(.*\)\) /, "", line)
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
    function_read(header, name, prototype, comment)
    comment = ""
    next
}
!reading && /[^ ]/ { comment = "" }
