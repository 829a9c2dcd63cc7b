"""The notebooks run from their first cell to their last, without a model and without the network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
nbformat = pytest.importorskip("nbformat", reason="notebooks need the extra `docs`")
nbclient = pytest.importorskip("nbclient", reason="notebooks need the extra `docs`")
pytest.importorskip("ipykernel", reason="notebooks need the extra `docs`")

# In a process of its own: the machinery that runs notebooks has sockets and warnings that are not ours. The kernel is
# this interpreter, whatever kernels are registered.
EXECUTE = """
import sys, nbformat, nbclient
notebook = nbformat.read(sys.argv[1], as_version=4)
client = nbclient.NotebookClient(notebook, timeout=300)
client.create_kernel_manager()
client.km.kernel_spec.argv[0] = sys.executable
client.execute()
nbformat.write(notebook, sys.argv[2])
"""


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_holds_no_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and all(not cell.outputs and cell.execution_count is None for cell in code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path, tmp_path):
    done = tmp_path / "done.ipynb"
    environment = os.environ | {"GUIDED_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT), "JUPYTER_PLATFORM_DIRS": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", EXECUTE, path, done], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    outputs = [output for cell in nbformat.read(done, as_version=4).cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 5
    said = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stderr")
    assert "Warning" not in said, said
