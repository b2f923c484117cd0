# bare-code.awk - C files without comments and without the text between quotes, line by line, so that
# scripts/lint finds code and not prose. An #include line keeps its quotes. To standard output, or
# with -v out=DIR each file to DIR under its own name.
FNR == 1 {
    in_comment = 0
    if (out != "") {
        if (file != "")
            close(file)
        file = out "/" FILENAME
    }
}

/^#include/ && !in_comment { write($0); next }

{
    rest = $0
    bare = ""
    if (in_comment) {
        if (!match(rest, /\*\//)) {
            write("")
            next
        }
        rest = substr(rest, RSTART + 2)
        in_comment = 0
    }
    while (match(rest, /\/\*|\/\/|"([^"\\]|\\.)*"?|'([^'\\]|\\.)*'?/)) {
        bare = bare substr(rest, 1, RSTART - 1)
        found = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        if (found == "//") {
            rest = ""
        } else if (found != "/*") {
            bare = bare substr(found, 1, 1) substr(found, 1, 1)
        } else if (match(rest, /\*\//)) {
            bare = bare " "
            rest = substr(rest, RSTART + 2)
        } else {
            in_comment = 1
            rest = ""
        }
    }
    write(bare rest)
}

function write(line) {
    if (file == "")
        print line
    else
        print line >file
}
