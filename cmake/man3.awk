# Writes manual pages of section 3 from the public headers: one for each comment above functions, with a link to it
# for each further function, and one for each header, with what its first comment says.
#
#     awk -v dir=DIR -v version=VERSION -f headers.awk -f man3.awk HEADER...

# Text as roff takes it: a backslash, a hyphen of code and a sign are themselves.
function escape(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-[0-9]/, "\\\\&", text)
    gsub(/'/, "\\(aq", text)
    gsub(/`/, "\\(ga", text)
    gsub(/\^/, "\\(ha", text)
    gsub(/~/, "\\(ti", text)
    if (text ~ /^\./)
        text = "\\&" text
    return text
}

function escape_code(text) {
    text = escape(text)
    gsub(/\\-/, "-", text)
    gsub(/-/, "\\-", text)
    return text
}

# The same as the argument of a macro.
function argument(text) {
    gsub(/"/, "\\(dq", text)
    return "\"" text "\""
}

function put(line) {
    page = page line "\n"
}

# What stands before the first full stop or colon that ends a sentence.
function first_sentence(text) {
    gsub(/\n/, " ", text)
    if (match(text, /[.:;]( |$)/))
        text = substr(text, 1, RSTART - 1)
    if (text !~ /\)/)
        sub(/ \(.*/, "", text)
    if (text ~ /^[A-Z][a-z]/)
        text = tolower(substr(text, 1, 1)) substr(text, 2)
    return text
}

# True: the line begins with a name of the synopsis, and a colon.
function is_parameter(line, word) {
    word = line
    return sub(/: .*/, "", word) && word ~ /^[a-z_, ]+$/ && prototypes ~ ("[ *]" first_word(word) "[,)]")
}

function first_word(text) {
    sub(/,.*/, "", text)
    return text
}

# A comment: paragraphs, lists by their indentation, and code, which is indented by four after an empty line.
function put_comment(text,    lines, count, i, line, blank, in_code, in_list, words) {
    count = split(text, lines, "\n")
    blank = 1
    for (i = 1; i <= count; i++) {
        line = lines[i]
        if (line == "") {
            blank = 1
            continue
        }
        if (in_code && line !~ /^    /) {
            put(".EE")
            in_code = 0
        }
        if (in_code || (blank && line ~ /^    /)) {
            if (!in_code)
                put(".PP\n.EX")
            else if (blank)
                put("")
            in_code = 1
            put(escape_code(line))
        } else if (line ~ /^ *- /) {
            sub(/^ *- /, "", line)
            put(".IP \\(bu 2\n" escape(line))
            in_list = 1
        } else if (line ~ /^  [^ ]/) {
            sub(/^  /, "", line)
            words = line
            sub(/   *.*/, "", words)
            put(".TP\n.B " argument(escape(words)))
            line = substr(line, length(words) + 1)
            sub(/^ */, "", line)
            if (line != "")
                put(escape(line))
            in_list = 1
        } else if (line ~ /^ /) {
            sub(/^ */, "", line)
            put(escape(line))
        } else if (is_parameter(line)) {
            words = line
            sub(/: .*/, "", words)
            sub(/^[^:]*: /, "", line)
            put(".TP\n.I " argument(words) "\n" escape(line))
            in_list = 0
        } else {
            if (i > 1 && (blank || in_list))
                put(".PP")
            in_list = 0
            put(escape(line))
        }
        blank = 0
    }
    if (in_code)
        put(".EE")
}

# One prototype, in lines that a narrow page has room for.
function put_prototype(text,    head, parts, count, i, line) {
    gsub(/[ \n]+/, " ", text)
    sub(/ $/, "", text)
    head = text
    sub(/\(.*/, "(", head)
    count = split(substr(text, length(head) + 1), parts, ", ")
    line = head
    for (i = 1; i <= count; i++) {
        if (length(line) + length(parts[i]) > 60 && line != "        ") {
            sub(/ $/, "", line)
            put(".B " argument(escape_code(line)))
            line = "        "
        }
        line = line parts[i] (i < count ? ", " : "")
    }
    put(".B " argument(escape_code(line)))
}

function write_page(name, names, what, body,    file) {
    file = dir "/" name ".3"
    printf ".\\\" SPDX-License-Identifier: MIT\n.\\\" Made from the headers.\n.TH %s 3 \"\" \"dlock %s\" \"Library Functions Manual\"\n.nh\n.ad l\n", name, version > file
    printf ".SH NAME\n%s \\- %s\n%s", names, escape(what), body > file
    close(file)
}

function write_group(    i, names, what, comment) {
    if (count_of_group == 0)
        return
    names = group[1]
    prototypes = ""
    for (i = 1; i <= count_of_group; i++) {
        prototypes = prototypes group_prototype[i]
        if (i > 1) {
            names = names ", " group[i]
            printf ".so man3/%s.3\n", group[1] > (dir "/" group[i] ".3")
            close(dir "/" group[i] ".3")
        }
    }
    page = ""
    put((group_header == "plugin.h" ? "" : ".SH LIBRARY\nlibdlock (\\-ldlock)\n") \
        ".SH SYNOPSIS\n.nf\n.B #include <dlock/" group_header ">\n.PP")
    for (i = 1; i <= count_of_group; i++)
        put_prototype(group_prototype[i])
    put(".fi\n.SH DESCRIPTION")
    put_comment(group_comment)
    for (i = 1; i <= count_of_group; i++)
        if (group_remark[i] != "")
            put(".TP\n.BR " group[i] " ()\n" escape(group_remark[i]))
    put(".SH SEE ALSO\n.BR dlock (3)")
    what = first_sentence(group_comment)
    write_page(group[1], names, what, page)
    count_of_group = 0
}

function function_read(header, name, prototype, comment,    remark) {
    if (comment != "" || header != group_header)
        write_group()
    remark = ""
    if (match(prototype, /\/\*.*\*\//)) {
        remark = substr(prototype, RSTART + 3, RLENGTH - 6)
        sub(/ *\/\*.*\*\//, "", prototype)
    }
    if (count_of_group == 0) {
        group_header = header
        group_comment = comment
    }
    count_of_group++
    group[count_of_group] = name
    group_prototype[count_of_group] = prototype
    group_remark[count_of_group] = remark
    functions[header] = functions[header] ",\n.BR " name " (3)"
}

# dlock.h is dlock(3), the others are dlock_types.h(3) and so on: no function has such a name.
function header_read(header, comment,    what, name) {
    write_group()
    what = comment
    sub(/^[^-]*- /, "", what)
    sub(/^[^\n]*\n[^\n]*- /, "", what)
    headers++
    header_name[headers] = header == "dlock.h" ? "dlock" : "dlock_" header
    header_file[headers] = header
    header_what[headers] = first_sentence(what)
    header_comment[headers] = comment
}

END {
    write_group()
    for (h = 1; h <= headers; h++) {
        page = ""
        prototypes = ""
        put(".SH SYNOPSIS\n.nf\n.B #include <dlock/" header_file[h] ">\n.fi\n.SH DESCRIPTION")
        comment = header_comment[h]
        sub(/^\n*/, "", comment)
        put_comment(comment)
        see = functions[header_file[h]]
        for (i = 1; i <= headers; i++)
            if (i != h)
                see = see ",\n.BR " header_name[i] " (3)"
        gsub(/\),/, ") ,", see)
        put(".SH SEE ALSO\n" substr(see, 3))
        write_page(header_name[h], header_name[h], header_what[h], page)
    }
}
