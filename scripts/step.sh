#!/bin/sh
# Runs one step of a set-up, and reports it in one line:   sh scripts/step.sh LOG "what it does" command argument...
#
# In: the command; STEP_PAUSE, a command that pauses between two reports (default: sleep 10). Out, on standard error: what the
# step does; at each report, the number of files that Ninja has compiled, or a dot; and the time that it took. The output of
# the command goes to LOG, and is shown if the command fails. Exit code: the command's.

set -u
log=$1 what=$2
shift 2
printf '== %s ...' "$what" >&2
start=$(date +%s)
report() {
    files=$(sed -n 's/.*\[\([0-9]*\/[0-9]*\)\] .*/\1/p' "$log" | tail -n 1)
    if [ "$files" = "$last" ]; then printf '.'; else printf ' %s files' "$files"; fi
    last=$files
}
last=''
# The pause has none of our outputs open, so nothing waits for it after the last report.
while ${STEP_PAUSE:-sleep 10} 3>&- && kill -0 $$; do report >&3; done 3>&2 >/dev/null 2>&1 &
reports=$!
"$@" >"$log" 2>&1 </dev/null
code=$?
kill "$reports" 2>/dev/null
wait "$reports" 2>/dev/null
if [ "$code" -eq 0 ]; then
    printf ' %d s\n' "$(($(date +%s) - start))" >&2
else
    printf ' failed (exit code %d). It said:\n\n' "$code" >&2
    tail -n 40 "$log" >&2
    printf '\nall of it: %s\n' "$log" >&2
fi
exit "$code"
