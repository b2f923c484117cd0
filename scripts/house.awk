# house.awk - the rules of the project about folders, files and names of the product.
#
#     awk -f house.awk EXCEPTIONS OLD-WORDS TESTS FILE...
#
# EXCEPTIONS: lines "RULE WHAT..." that are not reported; see house.except. OLD-WORDS: a word a line.
# TESTS: the files that tests name, one a line. FILE: C files of core, lib, plugins, cli and include,
# after bare-code.awk and in the layout of clang-format; of files of bench and of Lua scripts, also
# without comments and strings, only the words are checked. Prints "RULE<tab>WHAT<tab>complaint" lines.
# The rule "includes" is no complaint: the line says that a folder includes files of another one.
FILENAME == ARGV[1] { sub(/ *#.*/, ""); excepted[$0] = 1; next }
FILENAME == ARGV[2] { old_word[$1] = 1; next }
FILENAME == ARGV[3] { tested[$1] = 1; next }

FNR == 1 {
    signature = ""
    body = ""
    named[++named_count] = FILENAME
    words_only = FILENAME ~ /^bench\/|\.lua$/
}

{
    count = split($0, word, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= count; i++)
        if (word[i] ~ /^[A-Za-z_]/ && !/^#include/ && !(word[i] in word_file))
            word_file[word[i]] = FILENAME
}

words_only { next }

FNR == 1 {
    files[++file_count] = FILENAME
    is_file[FILENAME] = 1
    unit = stem(FILENAME)
    folder = folder_of(unit)
}

/^#include/ {
    if (match($0, /"[^"]*"|<dlock\/[^>]*>/)) { # <link.h> is the system's
        from[++include_count] = FILENAME
        to[include_count] = substr($0, RSTART + 1, RLENGTH - 2)
    }
    signature = ""
    next
}

{
    line = $0
    gsub(/(struct|enum|union) /, "type_", line) # no use of a function of that name
    count = split(line, word, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= count; i++)
        if (word[i] ~ /^[A-Za-z_]/ && !((FILENAME, word[i]) in uses)) {
            uses[FILENAME, word[i]] = 1
            used[++use_count] = word[i]
            user[use_count] = unit
        }
}

/^struct [A-Za-z0-9_]+ \{$/ { types[unit] = types[unit] " " $2 }

/^#/ { signature = ""; next }
/^\{/ { begin_body(); next }
/^\}/ { end_body(); next }
body != "" { text = text "\n" $0; next }
/[;}] *$|^ *$/ { signature = ""; next }
{ signature = signature " " $0 }

END {
    set_ranks()
    resolve_includes()
    check_cycles()
    check_names()
    check_locked()
    check_words()
    for (i = 1; i <= file_count; i++)
        if (files[i] ~ /\.c$/ && !(files[i] in tested))
            complain("tested", files[i], files[i] ": no test has the line /* Tests: " files[i] " */")
    for (name in tested)
        if (!(name in is_file))
            complain("tested", name, name ": a test says that it tests it, and it is not there")
}

function stem(path) { sub(/\.([ch]|lua)$/, "", path); return path }
function folder_of(path) { return sub(/\/[^\/]*$/, "", path) ? path : "." }
# plugins/redis, of plugins/redis/call: what a picture of all folders shows.
function room_of(folder) { return match(folder, /^plugins\/[^\/]*/) ? substr(folder, 1, RLENGTH) : folder }
function base(path) { sub(/.*\//, "", path); return path }

function complain(rule, what, text) {
    if (!((rule " " what) in excepted))
        print rule "\t" what "\t" text
}

# A function: its name, where it is, and whether others may call it.
function begin_body(   name) {
    gsub(/__attribute__ *\(\(.*\)\)/, "", signature)
    if (match(signature, /[A-Za-z_][A-Za-z_0-9]*\(/)) {
        name = substr(signature, RSTART, RLENGTH - 1)
        body = name
        text = ""
        if (signature !~ /(^| )static /) {
            defined[name] = unit
            in_header[name] = FILENAME ~ /\.h$/
        }
    }
    signature = ""
}

function end_body() {
    if (body != "") {
        function_name[++function_count] = body
        function_file[function_count] = FILENAME
        function_text[function_count] = text
    }
    body = ""
    signature = ""
}

# sys <- load <- session <- client <- hold <- acquire <- async <- api; lib is beside all of them.
function set_ranks(   names, i, count) {
    count = split("sys load session client hold acquire async api", names, " ")
    for (i = 1; i <= count; i++)
        rank["core/" names[i]] = i
    count = split("lua link guard servers call", names, " ") # each includes those before it
    for (i = 1; i <= count; i++)
        wing_rank["plugins/redis/" names[i]] = i
}

function may_include(a, b) {
    if (a == b || b ~ /^include/ || (b == "lib" && a !~ /^include/))
        return 1
    if (b in rank)
        return a in rank && rank[b] < rank[a]
    if (room_of(b) != b)
        return room_of(a) == room_of(b) && wing_rank[b] <= (a in wing_rank ? wing_rank[a] : 99)
    a = room_of(a)
    if (b == "plugins/net")
        return a ~ /^plugins\//
    return b == "plugins/resp" && (a == "plugins/redis" || a == "plugins/redlock")
}

function found(path) {
    return path in is_file ? path : ""
}

# The path of a header: beside the file, or in a folder of the compiler's search path.
function header(file, name,   path, i) {
    if ((path = found(folder_of(file) "/" name)) != "" || (path = found("core/" name)) != "" ||
        (path = found("lib/" name)) != "" || (path = found("include/" name)) != "" ||
        (path = found("plugins/net/" name)) != "" || (path = found("plugins/resp/" name)) != "")
        return path
    gsub(/^(\.\.\/)+/, "", name)
    if ((path = found("plugins/" name)) != "" || (path = found("core/" name)) != "" || (path = found(name)) != "")
        return path
    for (i = 1; i <= file_count && file ~ /^plugins\//; i++) # of another plugin?
        if (files[i] ~ /^plugins\// && base(files[i]) == name)
            return files[i]
    return ""
}

function resolve_includes(   i, path, a, b, line, sorted) {
    for (i = 1; i <= include_count; i++) {
        path = header(from[i], to[i])
        if (path == "")
            continue
        a = folder_of(from[i])
        b = folder_of(path)
        print_arrow(room_of(a), room_of(b))
        if (!may_include(a, b))
            complain("direction", a " " b, from[i] " includes " path)
        if (from[i] ~ /\.h$/ && a == b)
            join(stem(from[i]), stem(path), "its header")
    }
}

function print_arrow(a, b) {
    if (a != b && !((a, b) in arrow)) {
        arrow[a, b] = 1
        print "includes\t" a " " b "\t" a " -> " b
    }
}

# One file needs another of its folder: by a function, or header by header.
function join(a, b, why) {
    if (a == b || folder_of(a) != folder_of(b) || (("cycle " a " " b) in excepted))
        return
    if (!((a, b, why == "its header") in edge)) {
        edge[a, b, why == "its header"] = why
        edge_from[++edge_count] = a
        edge_to[edge_count] = b
        edge_kind[edge_count] = why == "its header"
    }
}

function reaches(a, b, kind,   i) {
    if (a == b)
        return 1
    if ((a, visit) in visited)
        return 0
    visited[a, visit] = 1
    for (i = 1; i <= edge_count; i++)
        if (edge_from[i] == a && edge_kind[i] == kind && reaches(edge_to[i], b, kind))
            return 1
    return 0
}

function check_cycles(   i, a, b) {
    for (i = 1; i <= use_count; i++)
        if (used[i] in defined && !in_header[used[i]]) {
            join(user[i], defined[used[i]], used[i])
            a = folder_of(user[i])
            b = folder_of(defined[used[i]])
            if (used[i] ~ /^dl_/ && !may_include(a, b)) # without an #include, too
                complain("direction", a " " b, user[i] " needs " used[i] " of " defined[used[i]])
        }
    for (i = 1; i <= edge_count; i++) {
        visit++
        if (reaches(edge_to[i], edge_from[i], edge_kind[i]))
            complain("cycle", edge_from[i] " " edge_to[i], edge_from[i] " needs " edge_to[i] " (" \
                edge[edge_from[i], edge_to[i], edge_kind[i]] "), which needs it")
    }
}

# dl_session_pool_take and dl_session_pool belong in session_pool.c, dl_event_take in events.c. The last
# word of the file may be left out: dl_acquire_text belongs in acquire_steps.c, if acquire.h is there. A
# structure that the file defines counts as its name, too. Files of lib have several small topics. A
# file that is named for its thread has what the thread does: dl_renew belongs in renewer.c.
function names_its_file(name, unit,   file, first, prefix, header_of, type, count, i) {
    if (unit ~ /^lib\//)
        return begins(name, "dl")
    count = split(types[unit], type, " ")
    for (i = 1; i <= count; i++)
        if (begins(name, type[i]))
            return 1
    file = base(unit)
    sub(/^cmd_/, "", file) # a command of cli
    if (match(name, "^(dl|my|pg|zk|cli|" base(room_of(folder_of(unit))) ")_"))
        prefix = substr(name, 1, RLENGTH)
    if (prefix == "" && unit ~ /^(core|lib)\//)
        return 0
    if (begins(name, prefix file))
        return 1
    first = file
    while (sub(/_[^_]*$/, "", first)) {
        header_of = folder_of(unit) "/" first ".h"
        if (begins(name, prefix first) && (header_of in is_file || !(stem(header_of) ".c" in is_file)))
            return 1
    }
    if (file ~ /er$/ && begins(name, prefix substr(file, 1, length(file) - 2)))
        return 1
    return file ~ /s$/ && begins(name, prefix substr(file, 1, length(file) - 1))
}

function begins(name, words) {
    return name == words || index(name, words "_") == 1
}

function check_names(   name) {
    for (name in defined)
        if ((name !~ /^dlock_/ || defined[name] !~ /^core\//) && name != "main" && !names_its_file(name, defined[name]))
            complain("name", name, defined[name] ".c: " name " does not begin with the name of its file")
}

function check_locked(   i, locks, name, count, word, k, text) {
    for (i = 1; i <= function_count; i++) {
        name = function_name[i]
        text = function_text[i]
        if (name ~ /_locked$/) {
            if (match(text, /(^|[^a-z_0-9])(pthread_mutex_)?lock\(/)) {
                k = RSTART
                if (!match(text, /unlock\(/) || RSTART > k)
                    complain("locked", name, function_file[i] ": " name " takes a mutex")
            }
            continue
        }
        if (match(text, /(^|[^a-z_0-9])([a-z_0-9]*_)?(try|re)?lock\(/)) # what is before it has no mutex
            text = substr(text, 1, RSTART)
        count = split(text, word, /[^A-Za-z0-9_]+/)
        for (k = 1; k <= count; k++)
            if (word[k] ~ /_locked$/)
                complain("locked", name, function_file[i] ": " name " calls " word[k] " without the mutex")
    }
}

function check_words(   i, name) {
    for (name in word_file)
        check_name(name, name, word_file[name] ": " name)
    for (i = 1; i <= named_count; i++)
        check_name(base(stem(named[i])), named[i], named[i])
}

function check_name(name, what, where,   count, part, k, plain) {
    count = split(tolower(name), part, "_")
    for (k = 1; k <= count; k++) {
        plain = part[k]
        sub(/[0-9]+$/, "", plain)
        if (!(plain in old_word))
            sub(/s$/, "", plain)
        if (plain in old_word)
            complain("word", plain " " what, where ": \"" plain "\" is an old word of docs/glossary.md")
    }
}
