"""The numbers in a server's settings are checked when the settings are made, as on the command line. A server needs no
installed package to know its version."""

from __future__ import annotations

import argparse
import math
from dataclasses import fields, replace
from importlib.metadata import Distribution, PackageNotFoundError
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")

import guided
from guided.cli.serve_options import add_serve_options
from guided.server.app import create_app
from guided.server.settings import Settings
from tests.server_support import small_engine

NUMBERS = {
    field.name: field.default
    for field in fields(Settings)
    if isinstance(field.default, int | float) and not isinstance(field.default, bool)
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_out_of_range_are_refused(name: str) -> None:
    wrong: list[Any] = [-1, True, math.nan, math.inf, "5", None]
    for value in [*wrong, 1.5] if isinstance(NUMBERS[name], int) else wrong:
        with pytest.raises(guided.OptionError, match=f"{name} is .*, but must be") as caught:
            Settings(**{name: value})
        assert caught.value.option == name
    assert getattr(Settings(**{name: 1}), name) == 1


def test_zero_is_refused_where_the_command_line_refuses_it(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_serve_options(parser)
    on_command_line = NUMBERS.keys() - {"keep_alive", "retry_after"}
    for name in on_command_line:
        try:
            parser.parse_args([f"--{name.replace('_', '-')}", "0"])
        except SystemExit:
            with pytest.raises(guided.OptionError, match=f"{name} is 0, but must be"):
                replace(Settings(), **{name: 0})
        else:
            assert getattr(Settings(**{name: 0}), name) == 0
    assert "--max-running" in capsys.readouterr().err


def test_a_server_starts_from_source_without_package_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> Distribution:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(Distribution, "from_name", find)
    assert create_app(small_engine()).version == guided.__version__
