#!/bin/sh
# Checks the subjects of commits: between 16 and 71 characters, and without a period at the end.
#
# sh scripts/check_subject.sh FILE                          a commit message: its first line
# git log --format=%s A..B | sh scripts/check_subject.sh    subjects, one per line
set -eu
if [ $# -eq 1 ]; then sed -n '1p' "$1"; else cat; fi | {
  code=0
  while IFS= read -r subject; do
    length=$(printf '%s' "$subject" | wc -m)
    if [ "$length" -lt 16 ] || [ "$length" -ge 72 ]; then
      echo "the subject has $length characters, between 16 and 71 are asked for: $subject" >&2
      code=1
    fi
    case $subject in *.) echo "the subject ends with a period: $subject" >&2; code=1 ;; esac
  done
  exit $code
}
