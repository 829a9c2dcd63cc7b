#!/bin/sh
# Builds the sdist, and from it a wheel for each Python. Installs each into an empty environment, and runs tests/smoke there.
#
# sh scripts/check_dist.sh OUT [PYTHON ...]
# In: an output folder; the interpreters (default: python3). Out: OUT/*.tar.gz and OUT/*.whl. The environments are in a
# temporary folder outside the repository, so that the repository's modules cannot be imported by accident.
# TORCH=torch==2.13.0 also installs PyTorch and the engine's packages, so that the engine's test runs, too.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$root/tests/smoke" "$work/smoke"

install() { # ENVIRONMENT PACKAGES...
  environment=$1
  shift
  "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@"
}

"$1" -m venv "$work/build"
install "$work/build" build
rm -f "$out"/guided_decoding-*.tar.gz "$out"/guided_decoding-*.whl
"$work/build/bin/python" -m build --sdist --outdir "$out" "$root" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
sdist=$(ls "$out"/guided_decoding-*.tar.gz)
echo "== $(basename "$sdist"): $(wc -c < "$sdist") bytes"

number=0
for python in "$@"; do
  number=$((number + 1))
  environment=$work/environment$number
  "$python" -m venv "$environment"
  install "$environment" pip --upgrade
  "$environment/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps -w "$work/wheel$number" "$sdist"
  wheel=$(ls "$work/wheel$number"/*.whl)
  echo "== $(basename "$wheel"): $(wc -c < "$wheel") bytes"
  if [ -n "${TORCH:-}" ]; then
    install "$environment" "$TORCH"
    install "$environment" "guided-decoding[engine] @ file://$wheel" pytest
  else
    install "$environment" "$wheel" pytest
  fi
  (cd "$work/smoke" && "$environment/bin/python" -I -m pytest -q -p no:cacheprovider -W error .)
  cp "$wheel" "$out"
done
