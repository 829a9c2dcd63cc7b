"""The notebooks run from the first to the last cell, and their stored outputs equal those of a new run.

Texts are compared exactly, except for what `MEASURED` lists: times, and what depends on them. Of pictures, only the
size is compared. If a comparison fails because the notebook should print something else now, run it again and store it.

No network is used. The weights of SmolLM2 are used if they are cached. Otherwise, notebooks that load it use a smaller
model, whose outputs may differ. Then these notebooks run, but are not compared.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.document_support import missing
from tests.effort import every

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LARGEST = 400_000  # bytes: pictures are small
nbformat = pytest.importorskip("nbformat", reason="notebooks need the extra `docs`")
nbclient = pytest.importorskip("nbclient", reason="notebooks need the extra `docs`")
pytest.importorskip("ipykernel", reason="notebooks need the extra `docs`")

# It runs in its own process, since the notebook machinery opens sockets and issues warnings. The kernel is this
# interpreter, whatever kernels are registered.
EXECUTE = """
import sys, nbformat, nbclient
notebook = nbformat.read(sys.argv[1], as_version=4)
client = nbclient.NotebookClient(notebook, timeout=300)
client.create_kernel_manager()
client.km.kernel_spec.argv[0] = sys.executable
client.execute()
nbformat.write(notebook, sys.argv[2])
"""


MEASURED = re.compile(
    r"""
    [ ]*\d+(\.\d+)?(?=\ ms\b)                              # times
    | \b\d\d:\d\d(?=,)
    | [ ]*\b\d+\.\d+(?=\ times\b|\ passes\b)               # ratios of times
    | [ ]*\b\d+(?=\ tokens/s\b)
    | (?<=^the\ fastest\ run\ had\ ).*
    | \b\d+(?=\ steps\ for\b) | (?<='step':\ )\d+          # how requests share the passes of the model
    | \b\d+(?=\ were\ active\ at\ most\b)
    | ^[ab]{20,}$                                         # the order in which the events of two streams arrive
    | (?<="id":\ )"\w+-\w+" | (?<="created":\ )\d+ | (?<="ttft_ms":\ )[\d.]+
    """,
    re.VERBOSE | re.MULTILINE,
)
"""What differs from run to run."""


def outputs_of(cell) -> list[tuple[str, str]]:
    """The kinds and texts of a cell's outputs. Consecutive parts of a stream are joined, and measured values are #."""
    parts, last_stream = list[tuple[str, str]](), ""
    for output in cell.get("outputs", []):
        stream = output.name if output.output_type == "stream" else ""
        text = output.text if stream else output.data["text/plain"]
        if stream and stream == last_stream:
            text = parts.pop()[1] + text
        parts.append((stream or output.output_type, text))
        last_stream = stream
    return [(kind, MEASURED.sub("#", text)) for kind, text in parts]


def run(path: Path, folder: Path):
    """The notebook after a fresh run."""
    done = folder / path.name
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JUPYTER_PLATFORM_DIRS": "1"}
    if missing("model"):
        environment["GUIDED_CACHE"] = str(folder)
    ran = subprocess.run(
        [sys.executable, "-c", EXECUTE, path, done], env=environment, cwd=folder, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return nbformat.read(done, as_version=4)


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_stored_as_it_ran(path):
    """From the first to the last cell, without an error or a warning, and small."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert all(output.output_type in ("stream", "display_data", "execute_result") for output in outputs)
    assert "stderr" not in [output.get("name") for output in outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 5
    assert path.stat().st_size <= LARGEST


@pytest.mark.parametrize("path", every(2, NOTEBOOKS), ids=lambda path: path.stem)
def test_it_runs_and_shows_what_is_stored(path, tmp_path):
    stored, fresh = nbformat.read(path, as_version=4), run(path, tmp_path)
    outputs = [output for cell in fresh.cells for output in cell.get("outputs", [])]
    said = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stderr")
    assert "Warning" not in said, said
    assert [cell.source for cell in stored.cells] == [cell.source for cell in fresh.cells]
    if (why := missing("model")) and any("smollm2" in cell.source for cell in stored.cells):
        pytest.skip(f"it ran, but outputs are compared only with SmolLM2: {why}")
    for number, (before, now) in enumerate(zip(stored.cells, fresh.cells, strict=True)):
        assert outputs_of(before) == outputs_of(now), f"cell {number}"


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("  9.5 ms anew, 1.1 ms cached:  8.6 times", "119.5 ms anew, 21.1 ms cached: 5.7 times", True),
        ("72 tokens in 00:03, 24 tokens/s", "72 tokens in 00:12, 8 tokens/s", True),
        ("72 tokens in 00:03, 24 tokens/s", "73 tokens in 00:03, 24 tokens/s", False),
        ("multipleOf 12    147 pos.   0.4 ms", "multipleOf 12    147 pos.  10.4 ms", True),
        ("multipleOf 12    147 pos.   0.4 ms", "multipleOf 12    148 pos.   0.4 ms", False),
        ("dense    read  140 tokens, held 1024 positions", "dense    read    0 tokens, held 1024 positions", False),
        ('{"id": "cmpl-3d", "created": 17}', '{"id": "cmpl-65", "created": 18}', True),
        ('{"id": "cmpl-3d", "text": "a"}', '{"id": "cmpl-3d", "text": "b"}', False),
        ("37 times 43?", "38 times 43?", False),
        ("abab" * 9, "aabb" * 9, True),
        ("49 tokens\nthe fastest run had 2 drafts", "49 tokens\nthe fastest run had 4 drafts", True),
    ],
)
def test_only_measured_values_may_differ(first, second, same):
    cells = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in (first, second)]
    before, now = (outputs_of({"outputs": [cell]}) for cell in cells)
    assert (before == now) == same
