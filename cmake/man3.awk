# Writes manual pages of section 3 from the public headers: one for each comment above functions, with a link to it
# for each further function; one for each type; and one for each header, with what its first comment says.
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

# Members of a type, or its values, each with the comment before it or behind it.
function members_read(text, end,    code, note, at, same_line, before) {
    members = 0
    before = ""
    sub(/^[^{]*\{/, "", text)
    sub(/\};\n$/, "", text)
    while (text ~ /[^ \n]/) {
        match(text, /^[ \n]*/)
        same_line = substr(text, 1, RLENGTH) !~ /\n/ && members > 0
        text = substr(text, RLENGTH + 1)
        if (text ~ /^\/\*/) {
            at = index(text, "*/")
            note = substr(text, 4, at - 5)
            text = substr(text, at + 2)
            gsub(/\n *(\* )?/, " ", note)
            if (same_line)
                member_text[members] = note
            else
                before = note
            continue
        }
        at = index(text, end)
        code = index(text, "/*")
        if (at == 0 || (code > 0 && code < at))
            at = code > 0 ? code - 1 : length(text)
        code = substr(text, 1, at)
        text = substr(text, at + 1)
        gsub(/[ \n]+/, " ", code)
        sub(/[ ,;]*$/, "", code)
        if (code == "")
            continue
        members++
        member[members] = code
        member_text[members] = before
        before = ""
    }
}

function put_type(number,    is_enum, i) {
    is_enum = type_text_of[number] ~ /^enum/
    if (type_name[number] == "dlock_status") {
        members = statuses
        for (i = 1; i <= statuses; i++) {
            member[i] = status_name[i]
            member_text[i] = status_text[i]
        }
    } else {
        members_read(type_text_of[number], is_enum ? "," : ";")
    }
    put(".SH " (is_enum ? "VALUES" : "MEMBERS"))
    for (i = 1; i <= members; i++) {
        put(".TP\n.B " argument(escape_code(member[i])))
        if (member_text[i] != "")
            put(escape(member_text[i]))
    }
}

function write_types(    i, what) {
    for (i = 1; i <= types; i++) {
        if (type_name[i] in is_function)
            continue
        page = ""
        prototypes = ""
        put(".SH SYNOPSIS\n.nf\n.B #include <dlock/" type_header[i] ">\n.PP")
        what = type_text_of[i]
        sub(/ \{.*/, "", what)
        put(".B " what ";\n.fi")
        if (type_comment[i] != "") {
            put(".SH DESCRIPTION")
            put_comment(type_comment[i])
        }
        put_type(i)
        put(".SH SEE ALSO\n.BR dlock (3)")
        what = type_comment[i] == "" ? "a type of " type_header[i] : first_sentence(type_comment[i])
        write_page(type_name[i], type_name[i], what, page)
    }
}

function status_read(name, text) {
    status_name[++statuses] = name
    status_text[statuses] = text
}

function type_read(header, name, text, comment) {
    if (header == "plugin.h")
        return
    types++
    type_header[types] = header
    type_name[types] = name
    type_text_of[types] = text
    gsub(/^\n+|\n+$/, "", comment)
    type_comment[types] = comment
}

function write_group(    i, names, what, see) {
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
    for (i = 1; i <= types; i++)
        if (!(type_name[i] in is_function) && prototypes ~ ("(struct|enum) " type_name[i] "[ ),]"))
            see = see ".BR " type_name[i] " (3) ,\n"
    for (i = 1; i <= types; i++)
        if (type_name[i] == group[1])
            put_type(i)
    put(".SH SEE ALSO\n" see ".BR dlock (3)")
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
    is_function[name] = 1
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
    write_types()
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
