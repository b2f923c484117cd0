#!/bin/bash
# SPDX-License-Identifier: MIT
# Prints each dead link of the pages below a directory: a file that is not there, or a heading that the page has not.
# Addresses are not looked at. Ends with 1 if a link is dead, or if there are fewer than 40.
#
#     links.sh DIRECTORY
set -u
cd "$1" || exit 1
anchors=$(mktemp) || exit 1
trap 'rm -f "$anchors"' EXIT
mapfile -t pages < <(find . -name '*.md' | sort)

# A line a heading: PAGE#ANCHOR, as hosts of repositories make anchors. Punctuation beyond ASCII is not taken away.
LC_ALL=C awk '
    FNR == 1 { in_code = 0; split("", seen) }
    /^ *```/ { in_code = !in_code }
    in_code || !/^#+ / { next }
    {
        sub(/^#+ +/, "")
        gsub(/\]\([^)]*\)/, "")
        text = tolower($0)
        gsub(/[^a-z0-9_ \200-\377-]/, "", text)
        gsub(/ /, "-", text)
        print FILENAME "#" text (seen[text] ? "-" seen[text] : "")
        seen[text]++
    }' "${pages[@]}" >"$anchors"

count=0 dead=0
while IFS=: read -r page link; do
    link=${link#](} link=${link%)} count=$((count + 1))
    [[ $link =~ ^(https?:|mailto:) ]] && continue
    file=$page
    [[ $link == \#* ]] || file=$(dirname "$page")/${link%%#*}
    [ -e "$file" ] || { echo "$page: $link" && dead=1; }
    [[ $link == *\#* && -e $file ]] || continue
    file=./$(realpath --relative-to=. --no-symlinks "$file")
    grep -qxF "$file#${link#*#}" "$anchors" || { echo "$page: $link: no such heading" && dead=1; }
done < <(grep -oHE '\]\([^) ]+\)' "${pages[@]}")
echo "$count links"
[ "$count" -ge 40 ] && exit "$dead"
exit 1
