"""scripts/clients.py: reading recipes, recipes that fail, and the table in the guide."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from scripts import clients

RECIPES = {
    "good": "print('object: 1')\nprint('stream of text: a|b')",
    "long": "print('objects: 1')",
    "bad": "print('object: 1')\nimport sys\nsys.exit('the schema does not hold')",
    "away": "",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of recipes that need no packages, except one that cannot be installed."""
    examples = tmp_path / "examples"
    examples.mkdir()
    for name, code in RECIPES.items():
        head = f'"""{name.title()} against `guided serve`: it.\n\npip install {name}; then, run it."""\n'
        (examples / f"clients_{name}.py").write_text(head + code, encoding="utf-8")
    found = clients.recipes(examples)

    def install(recipe: clients.Recipe, place: Path) -> list[str]:
        if recipe.name == "away":
            raise clients.InstallationError("no network")
        place.mkdir()
        (place / recipe.path.name).write_bytes(recipe.path.read_bytes())
        return [sys.executable]

    monkeypatch.setattr(clients, "recipes", lambda: found)
    monkeypatch.setattr(clients, "install", install)
    monkeypatch.setattr(clients, "versions_of", lambda recipe, *_: f"{recipe.name} 1.0")
    monkeypatch.setattr(clients, "served_model", lambda: nullcontext("http://127.0.0.1:9"))
    return tmp_path


def test_every_recipe_names_its_packages():
    found = clients.recipes()
    assert found["autogen"].packages == ("autogen-agentchat", "autogen-ext[openai]")
    assert found["autogen"].names == ["autogen-agentchat", "autogen-ext"]
    assert found["vercel"].tool == "npm" and "@ai-sdk/openai" in found["vercel"].names
    assert found["openai_agents"].client == "OpenAI's Agents SDK"
    for recipe in found.values():
        if "from clients_types import" in (text := recipe.path.read_text("utf-8")):
            assert "imports clients_types.py" in text.split('"""')[1]
        assert recipe.path.name in recipe.path.read_text("utf-8").split("\n\n")[1] or recipe.tool == "npm"


def test_a_file_without_a_head_is_refused(tmp_path):
    (tmp_path / "clients_new.py").write_text('"""A client."""\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"clients_new\.py does not begin with"):
        clients.recipes(tmp_path)


def test_a_recipe_that_fails_fails_the_run(folder, capsys):
    assert clients.main(["--folder", str(folder / "all")]) == 1
    out, log = capsys.readouterr()
    head, _, away, bad, good, long = out.splitlines()
    assert head == "| | tested with | structured output | tools | streams | seconds | example |"
    assert away == "| Away | not installed: no network |  |  |  |  | `examples/clients_away.py` |"
    assert bad.startswith("| Bad | bad 1.0 failed: the schema does not hold | yes |  |  | ")
    assert good.startswith("| Good | good 1.0 | yes |  | yes | ")
    assert long.startswith("| Long | long 1.0 failed: it printed no object |  |  |  | ")
    assert "== Good ... " in log and str(folder / "all" / "bad.log") in log
    assert "the schema does not hold" in (folder / "all" / "bad.log").read_text("utf-8")


def test_a_client_that_cannot_be_installed_fails_nothing(folder, capsys):
    assert clients.main(["away", "good", "--folder", str(folder / "two")]) == 0
    out, log = capsys.readouterr()
    assert "not installed: no network" in out and f"what away said: {folder / 'two' / 'away'}.log" in log
    assert (folder / "two" / "away.log").read_text("utf-8") == "no network\n"


def test_a_recipe_that_hangs_is_stopped(folder, monkeypatch, capsys):
    def run(command, *_):
        raise subprocess.TimeoutExpired(command, 300, b"object: 1\n", "warning: \u00e9\n")

    (folder / "slow").mkdir()
    (folder / "slow" / "good.log").write_text("an earlier run", encoding="utf-8")

    monkeypatch.setattr(clients, "run", run)
    assert clients.main(["good", "--folder", str(folder / "slow")]) == 1
    assert "failed: stopped after 300 s" in capsys.readouterr().out
    text = (folder / "slow" / "good.log").read_text("utf-8")
    assert text == "object: 1\nwarning: \u00e9\nstopped after 300 s\n"


def test_an_installation_that_hangs_is_stopped(tmp_path, monkeypatch):
    def run(command, *_):
        raise subprocess.TimeoutExpired(command, 1200, b"collecting\n", None)

    monkeypatch.setattr(clients, "run", run)
    with pytest.raises(clients.InstallationError, match="npm was stopped after 1200 s") as caught:
        clients.check(["npm"], tmp_path)
    assert caught.value.output == "collecting\n"


@pytest.mark.parametrize("arguments", [["--write", "good"], ["unknown"]])
def test_names_are_checked(folder, arguments):
    with pytest.raises(SystemExit, match="2"):
        clients.main([*arguments, "--folder", str(folder / "none")])


def test_the_table_replaces_the_one_before(folder, tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(f"a\n\n{clients.BEGIN}\n| old |\n\n{clients.END}\nz\n", encoding="utf-8")
    clients.write_page("| new |\n", page)
    assert page.read_text("utf-8") == f"a\n\n{clients.BEGIN}\n| new |\n\n{clients.END}\nz\n"
    page.write_text("no marks\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"page\.md has no <!-- begin"):
        clients.write_page("| new |\n", page)


def test_failed_installations_have_a_reason(tmp_path):
    place = tmp_path / "client"
    place.mkdir()
    with pytest.raises(clients.InstallationError, match="no-such-program is not installed"):
        clients.check(["no-such-program"], place)
    with pytest.raises(clients.InstallationError, match="no such package"):
        clients.check([sys.executable, "-c", "import sys; print('first'); sys.exit('no such package')"], place)
    said = "import sys; sys.exit('npm warn a\\nnpm error code ENETUNREACH\\nnpm error a log is at /tmp')"
    with pytest.raises(clients.InstallationError, match=r"^npm error code ENETUNREACH$") as caught:
        clients.check([sys.executable, "-c", said], place)
    assert "error a log" in caught.value.output
    assert clients.check([sys.executable, "-c", "print(1)"], place) == "1\n"


def test_processes_of_recipes_see_the_server_and_a_home_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    given = clients.environment("http://127.0.0.1:9", tmp_path)
    assert given["GUIDED_URL"] == "http://127.0.0.1:9/v1" and given["HOME"] == str(tmp_path)
    assert "PYTHONPATH" not in given and "PATH" in given
