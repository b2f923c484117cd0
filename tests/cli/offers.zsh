# SPDX-License-Identifier: MIT
# offers.zsh DIRECTORY LINE: what zsh with DIRECTORY/_dlock offers at the end of LINE, as one line.
#
# It runs a zsh in a terminal of its own, types LINE and ^D, which lists the completions, deletes the
# line by ^U, and prints a mark. It reads up to each prompt or mark and never sleeps.
zmodload zsh/zpty || exit 1
export PS1=READY TERM=dumb
zpty shell zsh -f -i
zpty -r -m shell text '*READY*' || exit 1
zpty -w shell "fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D; LISTMAX=0;" \
    "unsetopt list_beep; stty columns 200 rows 200; PS1=PRO''MPT"
zpty -r -m shell text '*PROMPT*' || exit 1
zpty -w -n shell "$2"$'\x04'$'\x15'"print EN''D"$'\n'
zpty -r -m shell text '*END*' || exit 1

# The list is between the line that was typed and the next prompt; a word may have a description.
text=${text#*$'\n'}
text=${text%%PROMPT*}
print -r -- "$text" | sed -E 's/\r//; s/ +-- .*//; s/  +/ /g; s/ ?$/ /; /^ $/d' | tr -d '\n'
