# SPDX-License-Identifier: MIT
# fish completion for dlock(1)

# The words before the cursor that are neither options nor their values: the command, NAME, CMD ...
function __dlock_operands
    set -l skip 0
    for word in (commandline -opc)[2..]
        if test $skip = 1
            set skip 0
            continue
        end
        switch $word
            case -u --uri --ttl --wait --on-lost --kill-after --max-hold --label --data \
                    --conflict-exit-code --status-fd --outcome -n --name --owner --token \
                    --limit --keep --once-per --metrics --also --every --watch --until
                set skip 1
            case '-*'
            case '*'
                echo -- $word
        end
    end
end

# __dlock_at N [COMMAND ...]: N operands so far, and the first is one of COMMAND
function __dlock_at
    set -l operands (__dlock_operands)
    test (count $operands) -eq $argv[1]
    and begin
        test (count $argv) -eq 1
        or contains -- $operands[1] $argv[2..]
    end
end

# The names of held locks; those with escapes are left out.
function __dlock_names
    set -l words (commandline -opc)
    set -l uri
    for i in (seq (count $words))
        switch $words[$i]
            case -u --uri
                set uri -u $words[(math $i + 1)]
            case '--uri=*'
                set uri $words[$i]
        end
    end
    $words[1] -q $uri --json list 2>/dev/null | string replace -rf '^ *"name": "([^"\\\\]*)",?$' '$1'
end

# CMD of run and its words
function __dlock_in_command
    set -l operands (__dlock_operands)
    test "$operands[1]" = run; and test (count $operands) -ge 2
end

function __dlock_inner
    set -l operands (__dlock_operands)
    complete -C (string join ' ' -- (string escape -- $operands[3..]) (commandline -ct))
end

complete -c dlock -f
complete -c dlock -n __dlock_in_command -a '(__dlock_inner)'
complete -c dlock -n '__dlock_at 0' -a 'run acquire hold renew release inspect list top why observe break backends doctor new-plugin'
complete -c dlock -n '__dlock_at 1 run acquire hold renew release inspect list top why observe break' -a '(__dlock_names)'
complete -c dlock -n 'not __dlock_in_command' -s u -l uri -x -d 'the store'
complete -c dlock -n 'not __dlock_in_command' -l json -d 'print JSON'
complete -c dlock -n 'not __dlock_in_command' -s q -l quiet -d 'print no messages'
complete -c dlock -n 'not __dlock_in_command' -s v -l verbose -d 'print what happens'
complete -c dlock -n 'not __dlock_in_command' -l version
complete -c dlock -n 'not __dlock_in_command' -l help
complete -c dlock -n '__dlock_at 1 run acquire hold renew release inspect list top why observe break' -l name-hex -d 'NAME is given in hex'
complete -c dlock -n '__dlock_at 1 run acquire hold renew; or __dlock_at 2 renew' -l ttl -x -d 'the lease'
complete -c dlock -n '__dlock_at 1 run acquire hold' -l wait -x -d 'give up after this time'
complete -c dlock -n '__dlock_at 1 run acquire hold' -l nowait -d 'do not wait'
complete -c dlock -n '__dlock_at 1 run acquire hold' -l shared -d 'share the lock'
complete -c dlock -n '__dlock_at 1 run' -l on-lost -x -a 'kill warn' -d 'what happens to CMD when the lock is lost'
complete -c dlock -n '__dlock_at 1 run' -l kill-after -x -d 'from SIGTERM to SIGKILL'
complete -c dlock -n '__dlock_at 1 run' -l max-hold -x -d 'hold for at most this time'
complete -c dlock -n '__dlock_at 1 hold' -l until -x -a 'input signal parent' -d 'what ends it'
complete -c dlock -n '__dlock_at 1 inspect' -l waiters -d 'show the queue'
complete -c dlock -n '__dlock_at 1 why' -l also -x -d 'one more store'
complete -c dlock -n '__dlock_at 1 top' -l every -x -d 'time between two tables'
complete -c dlock -n '__dlock_at 1 top' -l once -d 'print the table once'
complete -c dlock -n '__dlock_at 1 run acquire hold' -l label -x -d 'a text that inspect and list show'
complete -c dlock -n '__dlock_at 1 run acquire hold' -l data -x -d 'a text that inspect and observe show'
complete -c dlock -n '__dlock_at 1 run acquire hold' -l limit -x -d 'so many at once'
complete -c dlock -n '__dlock_at 1 run' -l keep -x -d 'keep the name until this time after the start'
complete -c dlock -n '__dlock_at 1 run' -l once-per -x -d 'keep the name until the end of the period'
complete -c dlock -n '__dlock_at 1 run' -l keep-always -d '... also if CMD fails'
complete -c dlock -n '__dlock_at 1 run' -l conflict-exit-code -x -d 'instead of 75'
complete -c dlock -n '__dlock_at 1 run' -l skip-quietly -d 'exit 0 and print nothing if another owner holds the lock'
complete -c dlock -n '__dlock_at 1 run' -l status-fd -x -d 'events to a descriptor'
complete -c dlock -n '__dlock_at 1 run' -l again -d 'after a loss, run CMD again'
complete -c dlock -n '__dlock_at 1 run' -l join -d 'run CMD at once below a run that holds NAME'
complete -c dlock -n '__dlock_at 1 run' -l contain -d 'CMD in a PID namespace of its own: all of it ends with it'
complete -c dlock -n '__dlock_at 1 run' -s n -l name -x -a '(__dlock_names)' -d 'one of several names'
complete -c dlock -n '__dlock_at 1 run' -l outcome -r -F -d 'events to a file'
complete -c dlock -n '__dlock_at 1 run' -l metrics -r -F -d 'what was counted, to a file for Prometheus'
complete -c dlock -n '__dlock_at 1 renew release; or __dlock_at 2 renew release' -l token -x -d 'the token that acquire printed'
complete -c dlock -n '__dlock_at 1 break; or __dlock_at 2 break' -l owner -x -d 'only the lease with this token'
complete -c dlock -n '__dlock_at 1 break; or __dlock_at 2 break' -l yes -d 'do not ask'
complete -c dlock -n '__dlock_at 1 doctor' -l strict -d 'exit 1 if there is advice'
complete -c dlock -n '__dlock_at 1 doctor' -l watch -x -d 'take a lock and check the store again and again'
complete -c dlock -n '__dlock_at 1 doctor' -l metrics -r -F -d 'the results, to a file for Prometheus'
