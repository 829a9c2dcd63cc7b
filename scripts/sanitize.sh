#!/usr/bin/env bash
# Runs the tests of the native modules under the compiler's sanitizers.
#
#   scripts/sanitize.sh address|thread [pytest arguments; default: the tests of the core; with address, also of the kernels]
#
# address: builds the modules with address and undefined-behaviour checks, and with injected failures (base/faults.hpp).
# thread: builds them with race checks. The builds go into build/sanitize-*/, next to a copy of the package with these
# modules, in which the tests run. The developer's own modules are not changed.
# Exit code 0: the tests pass, and no sanitizer reports anything. Needs cmake, ninja, gcc. PYTHON is the interpreter
# (default: python3), in which nanobind, numpy, pytest and hypothesis are installed.
set -euo pipefail

kind="${1:-}"
case "$kind" in
  address) flags="address;undefined" runtimes="libasan.so libubsan.so" faults=ON unity=ON ;;
  thread) flags="thread" runtimes="libtsan.so" faults=OFF unity=OFF ;;
  *)
    echo "usage: $0 address|thread [pytest arguments]" >&2
    exit 2
    ;;
esac
shift
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
python="$(command -v "${PYTHON:-python3}")"
[[ "$python" == /* ]] || python="$PWD/$python"  # the tests run in another folder
build="$root/build/sanitize-$kind"
shadow="$build/shadow"

mkdir -p "$root/build"
cmake -S "$root" -B "$build/cmake" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_COMPILER=g++ -DCMAKE_UNITY_BUILD=$unity \
  -DGUIDED_SANITIZE="$flags" -DGUIDED_FAULTS=$faults -DGUIDED_WARNINGS_ARE_ERRORS=ON -DGUIDED_MODULE_FLAGS=NOSTRIP -DPython_EXECUTABLE="$python" >"$build.log" 2>&1 ||
  { cat "$build.log" >&2; exit 2; }
ninja -C "$build/cmake" -j "${JOBS:-2}"

# pytest puts the folder above tests/ first on the path, so the tests must be next to the package.
rm -rf "$shadow"
mkdir -p "$shadow"
cp -R "$root/guided" "$root/grammars" "$root/tests" "$root/benchmarks" "$root/pyproject.toml" "$shadow/"
find "$shadow" \( -name '_core*.so' -o -name '_kernels*.so' -o -name '_lark*.so' -o -name '__pycache__' \) -prune -exec rm -rf {} +
cp "$build"/cmake/_core*.so "$shadow/guided/automaton/"
cp "$build"/cmake/_kernels*.so "$shadow/guided/kernels/"
cp "$build"/cmake/_lark*.so "$shadow/guided/frontends/lark/"
# An editable install redirects imports to the developer's own modules, before any path is searched.
cat >"$shadow/sitecustomize.py" <<'PYTHON'
import sys

sys.meta_path[:] = [each for each in sys.meta_path if type(each).__name__ != "ScikitBuildRedirectingFinder"]
PYTHON

# The interpreter is not instrumented, so the runtimes are preloaded, together with libstdc++, whose exceptions they watch.
preload=""
for name in $runtimes libstdc++.so; do preload+="$(g++ -print-file-name=$name) "; done
reports="$build/report"
rm -f "$reports".*
printf 'race:libopenblas\nrace:_multiarray_umath\n' >"$build/suppressions"  # numpy's own threads are not ours to check

if [ $# -eq 0 ]; then
  set -- tests/test_core_*.py tests/test_composed.py tests/test_lexed_walks.py
  [ "$kind" = thread ] || set -- "$@" tests/test_lark_lalr.py tests/test_lark_expanded.py tests/test_kernels.py tests/test_kv_quantised.py tests/test_stored_native.py
fi
cd "$shadow"
# CPython keeps objects until it exits, which leak checks would report. If addresses are randomised widely, TSan cannot map
# its shadow memory; setarch -R turns the randomisation off.
# With injected failures, the modules have their own `operator new`, through which memory of the C++ library passes, too.
# Instrumented frames are several times as large, so the stack is, too.
ulimit -s 65536 2>/dev/null || ulimit -s "$(ulimit -H -s)"
found="$(PYTHONPATH="$shadow" "$python" -c "import importlib.util as u; print(u.find_spec('guided').origin)")"
if [ "$found" != "$shadow/guided/__init__.py" ]; then
  echo "guided is imported from $found, not from $shadow" >&2
  exit 2
fi
status=0
env PYTHONPATH="$shadow" PYTHONMALLOC=malloc PYTHONFAULTHANDLER=1 OPENBLAS_NUM_THREADS=1 LD_PRELOAD="$preload" \
  ASAN_OPTIONS="detect_leaks=0:alloc_dealloc_mismatch=0:abort_on_error=1:allocator_may_return_null=1:log_path=$reports" \
  UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:abort_on_error=1:log_path=$reports" \
  TSAN_OPTIONS="halt_on_error=0:exitcode=66:history_size=4:suppressions=$build/suppressions:log_path=$reports" \
  GUIDED_SANITIZED="$kind" \
  setarch -R "$python" -m pytest -q -p no:cacheprovider "$@" || status=$?

for report in "$reports".*; do
  [ -e "$report" ] || continue
  echo "--- ${report#"$root"/}" >&2
  head -n 120 "$report" >&2
  status=1
done
exit "$status"
