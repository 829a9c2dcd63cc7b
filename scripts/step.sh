#!/bin/sh
# One step of a set-up, told in one line:   sh scripts/step.sh LOG "what it does" command argument...
#
# In: the command. Out, on standard error: what it does, a dot for each ten seconds that it takes, and how long it took. What
# the command itself says goes to LOG, and is shown where it fails. Exit code: the command's.

set -u
log=$1 what=$2
shift 2
printf '== %s ...' "$what" >&2
start=$(date +%s)
(
    trap 'kill "$pause" 2>/dev/null; exit 0' TERM
    while :; do
        sleep 10 &
        pause=$!
        wait "$pause"
        printf '.' >&2
    done
) &
dots=$!
"$@" >"$log" 2>&1 </dev/null
code=$?
kill "$dots" 2>/dev/null
wait "$dots" 2>/dev/null
if [ "$code" -eq 0 ]; then
    printf ' %d s\n' "$(($(date +%s) - start))" >&2
else
    printf ' failed (exit code %d). It said:\n\n' "$code" >&2
    tail -n 40 "$log" >&2
    printf '\nall of it: %s\n' "$log" >&2
fi
exit "$code"
