"""pytest's plug-in, in another test run."""

from __future__ import annotations

pytest_plugins = ("pytester",)

TESTS = """
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer", "minimum": 3}}, "required": ["id"]}

def test_right(assert_allowed, assert_refused):
    assert_allowed(SCHEMA, '{"id": 3}')
    assert_refused(SCHEMA, '{"id": 2}')
    assert_allowed(SCHEMA, '{"id":3}', whitespace="json")

def test_place(assert_allowed):
    assert_allowed(SCHEMA, '{"id": x}')

def test_place_in_lines(assert_allowed):
    assert_allowed(SCHEMA, '{\\n "id": x}', whitespace="json")

def test_incomplete(assert_allowed):
    assert_allowed(SCHEMA, '{"id": 3')

def test_allowed(assert_refused):
    assert_refused("a+", "aaa")
"""


def test_fixtures_have_reasons(pytester):
    pytester.makeconftest('pytest_plugins = ("guided.testing.plugin",)')
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=4)
    told = result.stdout.str()
    assert "line 1, column 8: '{\"id\": x}' is not allowed from character 8 on" in told
    assert "line 2, column 8: " in told
    assert "the shortest way to finish it is '}'" in told
    assert "the specification allows 'aaa'" in told
