# bare-code.awk - a C file without its comments and without what stands between quotes, line by
# line, so that scripts/lint finds code and not prose.
{
    out = ""
    quote = ""
    for (i = 1; i <= length($0); i++) {
        c = substr($0, i, 1)
        pair = substr($0, i, 2)
        if (in_comment) {
            if (pair == "*/") {
                in_comment = 0
                i++
            }
        } else if (quote != "") {
            if (c == "\\")
                i++
            else if (c == quote) {
                quote = ""
                out = out c
            }
        } else if (pair == "/*") {
            in_comment = 1
            out = out " "
            i++
        } else if (pair == "//") {
            break
        } else {
            if (c == "\"" || c == "'")
                quote = c
            out = out c
        }
    }
    print out
}
