# Reads the public headers. The caller has function_read(header, name, prototype, comment): a function, in the order
# of the files. A function below another one, without a comment of its own, has the comment "".
# Also header_read(header, comment), the comment with which a header begins, type_read(header, name, text, comment), a
# structure or an enum, and status_read(name, text), a status.
#
#     awk -f headers.awk -f CALLER HEADER...
FNR == 1 {
    count = split(FILENAME, path, "/")
    header = path[count]
    comment = ""
    comments = 0
}

# A comment of several lines, or of one.
type == "" && /^\/\*/ { comment = ""; inside = 1; comments++ }
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

/^(struct|enum) [a-z_]+ \{/ { type = $2; type_text = "" }
type != "" { type_text = type_text $0 "\n" }
type != "" && /};/ {
    type_read(header, type, type_text, comment)
    type = ""
}
/^    X\([A-Z_]+, [0-9]+, / {
    status = $1
    gsub(/^X\(|,$/, "", status)
    line = $0
    gsub(/^[^"]*"|"[^"]*$/, "", line)
    status_read("DLOCK_" status, line)
}

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
!reading && type == "" && /[^ ]/ { comment = "" }
