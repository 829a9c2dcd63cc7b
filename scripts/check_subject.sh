#!/bin/sh
# Checks the subject of a commit message: between 16 and 71 characters. sh scripts/check_subject.sh FILE
set -eu
subject=$(sed -n '1p' "$1")
length=$(printf '%s' "$subject" | wc -m)
if [ "$length" -lt 16 ] || [ "$length" -ge 72 ]; then
  echo "the subject has $length characters, between 16 and 71 are asked for: $subject" >&2
  exit 1
fi
