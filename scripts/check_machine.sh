#!/bin/sh
# Checks for the tools that must be installed before anything is downloaded: Python 3.11+ with venv and headers, a C++20
# compiler.
#
# In: $PYTHON and $CXX, if the user has set them. Out: the path of the Python to use, on standard output; exit 0. If
# anything is missing, standard error lists all missing tools and how to install them; exit 1. Written in POSIX sh, so that
# it also runs on minimal machines.

set -u
missing=0

say() { printf '%s\n' "$*" >&2; }

lack() {
    [ "$missing" -eq 0 ] && say "guided cannot be set up on this machine yet:"
    missing=1
    say ""
    say "  * $1"
    shift
    for line in "$@"; do say "      $line"; done
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        command -v "$PYTHON" >/dev/null 2>&1 && new_enough "$PYTHON" && command -v "$PYTHON"
        return
    fi
    for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if command -v "$name" >/dev/null 2>&1 && new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
}

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }  # also on Python 2

check_python() {
    python=$(find_python)
    if [ -z "$python" ]; then
        given=${PYTHON:-python3}
        found=$(version_of "$given")
        if [ -n "$found" ]; then found="$given is Python $found"; else found="there is no working $given"; fi
        lack "Python 3.11 or newer is needed; $found" \
            "Debian, Ubuntu:  sudo apt install python3 python3-venv python3-dev   (or python3.11-venv python3.11-dev)" \
            "Fedora:          sudo dnf install python3.12 python3.12-devel" \
            "macOS:           brew install python@3.12" \
            "anywhere:        https://www.python.org/downloads/   or   uv python install 3.12" \
            "then, if it is not the first on the PATH:  make PYTHON=/path/to/python3.12 ..."
        return
    fi
    version=$(version_of "$python")
    if ! "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
        lack "$python has no venv module" \
            "Debian, Ubuntu:  sudo apt install python$version-venv"
    fi
    if ! "$python" -c 'import os, sysconfig as s; assert os.path.isfile(s.get_path("include") + "/Python.h")' \
        >/dev/null 2>&1; then
        lack "$python has no headers (Python.h), which the C++ core is compiled against" \
            "Debian, Ubuntu:  sudo apt install python$version-dev" \
            "Fedora:          sudo dnf install python$version-devel"
    fi
}

compiles() {
    printf '#include <bit>\n#include <atomic>\nstatic_assert(std::popcount(7u) == 3);\nint main() {}\n' >"$scratch/try.cpp"
    # $1 is unquoted, since CXX may have flags or a wrapper, such as "ccache g++"
    $1 -std=c++20 "$scratch/try.cpp" -o "$scratch/try" >"$scratch/log" 2>&1
}

check_compiler() {
    scratch=$(mktemp -d) || { lack "no temporary directory can be made" "set TMPDIR to a writable directory"; return; }
    seen=""
    for name in ${CXX:+"$CXX"} ${CXX:-c++ g++ clang++}; do
        command -v "${name%% *}" >/dev/null 2>&1 || continue
        seen=$name
        if compiles "$name"; then
            rm -rf "$scratch"
            return
        fi
        [ -n "${CXX:-}" ] && break
    done
    if [ -z "$seen" ]; then what="a C++20 compiler is needed; there is no ${CXX:-c++, g++ or clang++}"
    else what="a C++20 compiler is needed (GCC 11, Clang 14 or newer); $seen cannot compile C++20"; fi
    lack "$what" \
        "Debian, Ubuntu:  sudo apt install g++" \
        "Fedora:          sudo dnf install gcc-c++" \
        "macOS:           xcode-select --install" \
        "to choose one:   make CXX=/path/to/g++ ..."
    rm -rf "$scratch"
}

check_python
check_compiler
if [ "$missing" -ne 0 ]; then
    say ""
    say "Install what is named above and run the same command again."
    exit 1
fi
"$python" -c 'import sys; print(sys.executable)'
