"""The notebooks run from the first to the last cell, and their stored outputs have the same kinds as those of a new
run.

No network is used. The weights of SmolLM2 are used if they are cached. Otherwise, the notebooks use a smaller model,
whose outputs may differ. Then they run, but are not compared.
"""

from __future__ import annotations

import os
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


def kinds(cell) -> list[str]:
    """The outputs of a cell: names of streams without repeats, and the richest form of everything else."""
    found = []
    for output in cell.get("outputs", []):
        kind = output.name if output.output_type == "stream" else "image" if "image/png" in output.data else "text"
        if not found or found[-1] != kind or kind == "image":
            found.append(kind)
    return found


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
    if why := missing("model"):
        pytest.skip(f"it ran, but outputs are compared only with SmolLM2: {why}")
    for number, (before, now) in enumerate(zip(stored.cells, fresh.cells, strict=True)):
        assert kinds(before) == kinds(now), f"cell {number}"
