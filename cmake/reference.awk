# Writes docs/reference.md from the public headers: each function with its comment, in their order.
#
#     awk -f headers.awk -f reference.awk HEADER...
BEGIN {
    print "# Reference\n"
    print "After this page you know what each function of dlock does. It is made from the headers in `include/dlock/`,"
    print "which also have the structures. `C5` and such are clauses of [guarantees.md](guarantees.md)."
}

function header_read(header, comment) {
}

function type_read(header, name, text, comment) {
}

function status_read(name, text) {
}

function function_read(header, name, prototype, comment) {
    if (header != last)
        printf "\n## %s\n", header
    last = header
    printf "\n### %s\n\n```\n%s```\n", name, prototype
    if (comment != "")
        printf "\n```text\n%s\n```\n", comment
}
