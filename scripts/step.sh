#!/bin/sh
# One step of a set-up, reported in one line:   sh scripts/step.sh LOG "what it does" command argument...
#
# In: the command. Out, on standard error: what it does, a dot for each ten seconds that it takes, and how long it took. What
# the command itself says goes to LOG, and is shown where it fails. Exit code: the command's.

set -u
log=$1 what=$2
shift 2
printf '== %s ...' "$what" >&2
start=$(date +%s)
# The pause holds none of our outputs, so nobody waits for it when the dots are no longer wanted.
while sleep 10 3>&- && kill -0 $$; do printf '.' >&3; done 3>&2 >/dev/null 2>&1 &
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
