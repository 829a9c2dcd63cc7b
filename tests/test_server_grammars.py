"""`/v1/grammars/...`: checks, explanations, sentences and steps, judged by re and by the engine itself."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import threading
from itertools import islice
from math import exp

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

from guided.meter import spend  # noqa: E402
from guided.server.engine_thread import EngineStopped  # noqa: E402
from guided.server.inspector import inspection  # noqa: E402
from guided.server.routes import grammars  # noqa: E402
from tests.live_server import served  # noqa: E402

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 99}, "tag": {"enum": ["on", "off"]}},
    "required": ["x", "tag"],
}


def run(body, **settings):
    async def whole():
        async with served(**settings) as (server, http):

            async def ask(route, status=200, **fields):
                answer = await http.post(f"/v1/grammars/{route}", content=json.dumps(fields))
                assert answer.status_code == status, answer.text
                return answer.json() if status == 200 else answer.json()["error"]

            await body(ask, server, http)

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("fields", "kind", "shortest", "tokens"),
    [
        ({"regex": "ab{2,9}"}, "regex", "abb", 3),
        ({"json_schema": json.dumps(POINT)}, "schema", '{"x": 0, "tag": "on"}', 21),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": POINT}}}, "schema",
            '{"x": 0, "tag": "on"}', 21),
        ({"lark": 'start: "a" "b"'}, "lark", "ab", 2),
        ({"gbnf": 'root ::= "x" [0-9]'}, "gbnf", "x0", 2),
        ({"ebnf": 'root ::= "y"'}, "gbnf", "y", 1),
        ({"grammar": "json"}, "grammar", None, 1),
        ({"structured_outputs": {"choice": ["yes", "no"]}}, "choice", "no", 2),
        ({"structural_tag": json.dumps({"type": "structural_tag", "format": {"type": "const_string", "value": "hi"}})},
            "structural_tag", "hi", 2),
    ],
)  # fmt: skip
def test_valid_grammars_are_reported_with_their_shortest_output(fields, kind, shortest, tokens):
    async def body(ask, server, http):
        told = await ask("check", **fields)
        assert told["valid"] and told["error"] is None and told["kind"] == kind
        assert shortest is None or told["shortest"] == shortest
        assert told["min_tokens"] == tokens and told["size"]["positions"] > 0
        assert isinstance(told["remarks"], list)

    run(body)


@pytest.mark.parametrize(
    ("fields", "marked", "line", "message"),
    [
        ({"regex": "x(a"}, "(", 1, "missing )"),
        ({"lark": 'start: "a"\n  | bee\n'}, "bee", 2, "used but not defined"),
        ({"gbnf": 'root ::= "a"\n  bee'}, "bee", 2, "not defined"),
        ({"json_schema": '{\n  "type": "strin"\n}'}, '"type": "strin"', 2, "is not a type"),
        ({"json_schema": '{\n  "type": "string"\n  1}'}, "1", 3, "is not JSON"),
        ({"json_schema": '{"a": 1,\n"a": 2}'}, '"a"', 2, "written twice"),
        ({"json_schema": '{"properties":\n {"a": {"pattern": "(b"}}}'}, '"pattern": "(b"', 2, "missing )"),
        ({"json_schema": '{"not": {},\n "$ref": "#/nowhere"}'}, '"$ref": "#/nowhere"', 2, "nothing"),
        ({"structural_tag": '{"type": "structural_tag",\n "format": {"type": "x"}}'}, '"type": "x"', 2, "no format"),
    ],
)  # fmt: skip
def test_refusals_are_reported_with_a_location(fields, marked, line, message):
    async def body(ask, server, http):
        told = await ask("check", **fields)
        error, source = told["error"], next(iter(fields.values()))
        assert not told["valid"] and message in error["message"]
        start, end = error["place"]["span"]
        assert source[start:end].startswith(marked), source[start:end]
        assert error["place"]["line"] == line == source.count("\n", 0, start) + 1
        assert error["place"]["column"] == start - source.rfind("\n", 0, start)
        assert error["param"] in fields

    run(body)


def test_possible_problems_are_reported():
    async def body(ask, server, http):
        told = await ask("check", regex="a+")
        assert [each["kind"] for each in told["remarks"]] == ["unbounded"] and "{1,n}" in told["remarks"][0]["hint"]
        collision = "start: A | B\nA: /ab?/\nB: /[a-c]/"
        told = await ask("check", lark=collision)
        assert any(each["kind"] == "collision" and each["example"] == "a" for each in told["remarks"]), told
        assert (await ask("check", lark=collision, remarks=False))["remarks"] is None

    run(body)


@pytest.mark.filterwarnings("ignore::guided.errors.GuidedWarning")
def test_unenforced_keywords_are_reported():
    async def body(ask, server, http):
        told = await ask("check", json_schema='{"type": "string", "format": "colour"}')
        assert [each["pointer"] for each in told["findings"]] == ["/format"]

    run(body)


@pytest.mark.parametrize(
    ("route", "fields", "param"),
    [
        ("check", {}, None),
        ("check", {"regex": "a", "lark": "b"}, "lark"),
        ("check", {"rexeg": "a"}, "rexeg"),
        ("check", {"json_schema": "3"}, "json_schema"),
        ("sample", {"regex": "a", "n": 101}, "n"),
        ("sample", {"regex": "a{9}", "max_length": 8}, "max_length"),
        ("sample", {"regex": "(a"}, "regex"),
        ("explain", {"regex": "a", "text": "a", "token": 1}, "token"),
        ("explain", {"regex": "a", "token": 258}, "token"),
        ("explain", {"regex": "a", "prefix": "b"}, "prefix"),
        ("explain", {"regex": "a", "prefix": [97, 97]}, "prefix.1"),
        ("explain", {"regex": "a", "text": "\ud800"}, None),
        ("explain", {"regex": "a", "prefix": "\ud800"}, None),
        ("explain", {"regex": "a", "prefix": "a" * 65537}, "prefix"),
        ("step", {"regex": "a"}, None),
        ("step", {"prompt": "a", "messages": [{"role": "user", "content": "a"}]}, None),
        ("step", {"prompt": "a", "tokens": [258]}, "tokens"),
        ("step", {"prompt": "a", "regex": "ab", "tokens": [97, 97]}, "tokens.1"),
        ("step", {"prompt": "a", "regex": "a{9}", "max_tokens": 8}, "max_tokens"),
        ("step", {"prompt": "a", "tokens": [97, 97], "max_tokens": 1}, "tokens"),
        ("step", {"prompt": "a" * 700}, None),
    ],
)
def test_invalid_requests_are_errors(route, fields, param):
    async def body(ask, server, http):
        error = await ask(route, 400, **fields)
        assert error["param"] == param and error["message"], error

    run(body)


def test_explanations_match_the_matcher():
    async def body(ask, server, http):
        schema = json.dumps(POINT)
        told = await ask("explain", json_schema=schema, prefix='{"x": 1', text="00")
        assert not told["accepted"] and told["read"] == 1 and told["place"]["column"] == 9
        assert "/properties/x" in " ".join(told["place"]["places"] + told["place"]["refused_by"])
        assert (await ask("explain", json_schema=schema, prefix='{"x": 1', text="2"))["accepted"]
        ids = list(b'{"x": 1')
        by_ids = await ask("explain", json_schema=schema, prefix=ids, token=ord("z"))
        assert not by_ids["accepted"] and by_ids["place"]["offset"] == len(ids)
        assert by_ids["allowed"] == len(by_ids["allowed_tokens"]) == 11  # ten digits and a comma
        assert by_ids["after_prefix"] == (await ask("explain", json_schema=schema, prefix='{"x": 1'))["after_prefix"]
        assert by_ids["min_tokens_to_finish"] == len(', "tag": "on"}') + 1
        assert len((await ask("explain", regex=".", most=3))["allowed_tokens"]) == 3
        half = await ask("explain", regex="é", prefix=[0xC3])
        assert half["allowed_tokens"] == [0xA9] and half["forced_tokens"] == []

    run(body)


def test_grammars_that_count_tokens_are_explained_after_ids():
    async def body(ask, server, http):
        told = await ask("explain", gbnf='root ::= !<[5]>{2} "b"', prefix=[97], token=98)
        assert told["accepted"]

    run(body, allow_special_tokens=True)


def test_sentences_are_of_the_language_and_come_again():
    async def body(ask, server, http):
        told = await ask("sample", regex="[a-c]{2}-[0-9]{1,4}", n=20, seed=3)
        assert len(told["texts"]) == 20 and len(set(told["texts"])) > 5
        assert all(re.fullmatch("[a-c]{2}-[0-9]{1,4}", text) for text in told["texts"])
        assert await ask("sample", regex="[a-c]{2}-[0-9]{1,4}", n=20, seed=3) == told
        values = [json.loads(text) for text in (await ask("sample", json_schema=json.dumps(POINT)))["texts"]]
        assert all(0 <= value["x"] <= 99 and value["tag"] in ("on", "off") for value in values)

    run(body)


def test_a_step_matches_the_engine():
    """Each token of an answer is in the mask of its step, and the masses equal those that the engine has counted."""

    async def body(ask, server, http):
        engine, regex, prompt = server.engine, "x[a-f]{2}(cd)?[0-9]{3}", "say"
        result = await asyncio.to_thread(engine.generate, prompt, regex, raw=True, max_tokens=40, seed=4)
        steps = []
        for at in range(len(result.tokens)):
            step = await ask("step", prompt=prompt, regex=regex, tokens=result.tokens[:at], max_tokens=40, top=100)
            allowed = {each["id"] for each in step["mask"]["tokens"]}
            assert result.tokens[at] in allowed and len(allowed) == step["mask"]["allowed"]
            possible = {c for c in range(256) if prefix_of(regex, result.text[:at] + chr(c))}
            assert allowed - {257} == possible
            assert bool(step["mask"]["forced"]) == (not result.token_masks[at])
            assert step["budget"]["left"] == 40 - at
            steps.append(step)
        chosen = [step for step, sampled in zip(steps, result.token_masks, strict=True) if sampled]
        for step, mass in zip(chosen, result.removed_log_masses, strict=False):
            assert step["removed"]["mass"] == pytest.approx(1 - exp(-mass), abs=1e-6)
            assert sum(each["probability"] for each in step["after"]) == pytest.approx(1, abs=1e-6)
            kept = sum(each["probability"] for each in step["before"] if each["allowed"])
            assert kept <= exp(-mass) + 1e-6
            assert all(each["allowed"] for each in step["after"])
        logits = engine.logits([*engine.encode_prompt(prompt, raw=True)])[0]
        best = int(logits[:258].argmax())
        assert steps[0]["before"][0]["id"] == best
        first = float(torch.softmax(logits, -1)[best])
        assert steps[0]["before"][0]["probability"] == pytest.approx(first, rel=1e-4)

    run(body)


def prefix_of(pattern: str, text: str) -> bool:
    """Whether a text can be continued to a match of `x[a-f]{2}(cd)?[0-9]{3}`."""
    rests = ("xaa000", "aa000", "a000", "cd000", "d000", "000", "00", "0", "")
    return any(re.fullmatch(pattern, text + rest) for rest in rests)


def test_a_step_of_messages_without_a_specification_and_near_the_end_of_its_budget():
    async def body(ask, server, http):
        say = [{"role": "user", "content": "Hi"}]
        free = await ask("step", messages=say, tokens=[97, 98])
        assert free["mask"]["allowed"] == free["mask"]["of"] == 258 and free["state"] is None
        assert free["before"] == free["after"] and free["removed"]["mass"] == 0
        assert free["budget"]["left"] == free["budget"]["max_tokens"] - 2
        tight = await ask("step", messages=say, regex="[ab]{2,9}", tokens=[97], max_tokens=2)
        assert {each["id"] for each in tight["mask"]["tokens"]} == {97, 98}
        assert tight["budget"] == {"max_tokens": 2, "left": 1, "needed": 1, "bound": False}
        bound = await ask("step", messages=say, regex="[ab]{2,9}", tokens=[97, 97], max_tokens=2)
        assert [each["id"] for each in bound["mask"]["tokens"]] == [257] and bound["budget"]["bound"]
        assert bound["removed"]["by_budget"] > 0 and bound["state"]["may_end"]

    run(body)


def test_token_ids_of_answers_and_chunks():
    async def body(ask, server, http):
        fields = {"prompt": "a", "regex": "(foo|bar)[0-9]{3}é", "max_tokens": 30, "seed": 2, "return_token_ids": True}
        whole = (await http.post("/v1/completions", json={**fields, "n": 2})).json()["choices"]
        events = (await http.post("/v1/completions", json={**fields, "n": 2, "stream": True})).text.split("\n\n")
        chunks = [json.loads(event[6:]) for event in events if event.startswith("data: {")]
        for number, choice in enumerate(whole):
            parts = [part for chunk in chunks for part in chunk["choices"] if part["index"] == number]
            for name in ("token_ids", "tokens"):
                assert [each for part in parts for each in part[name]] == choice[name]
            spelled = b"".join(bytes(token["bytes"]) for token in choice["tokens"]).decode()
            assert spelled == choice["text"] and len(choice["token_ids"]) == len(choice["tokens"])
            by_text = {"foo": "f", "bar": "b"}[choice["text"][:3]]
            assert [token["forced"] for token in choice["tokens"]] == [False, True, True, *[False] * 3, True, True]
            assert choice["tokens"][0]["token"] == by_text
        fields.pop("return_token_ids")
        assert "tokens" not in (await http.post("/v1/completions", json=fields)).json()["choices"][0]

    run(body)


def test_steps_during_streams_and_after_the_end_of_the_engine():
    async def body(ask, server, http):
        stream = asyncio.create_task(
            http.post("/v1/completions", json={"prompt": "a", "regex": "[a-z]{300}", "max_tokens": 300, "stream": True})
        )
        steps = [ask("step", prompt="b", regex="[a-z]{3}", tokens=[97 + n]) for n in range(8)]
        assert all(step["mask"]["allowed"] == 26 for step in await asyncio.gather(*steps))
        assert (await stream).text.endswith("data: [DONE]\n\n")
        with pytest.raises(ZeroDivisionError):
            await server.thread.call(lambda: 1 / 0)
        assert server.thread.is_alive
        server.thread.stop()
        assert (await ask("step", 503, prompt="b"))["code"] == "engine_stopped"
        with pytest.raises(EngineStopped):
            await server.thread.call(lambda: None)

    run(body)


def test_too_many_inspections_get_retry_after(monkeypatch):
    gate = threading.Event()
    monkeypatch.setattr(grammars, "sample", lambda request, seconds: {"opened": gate.wait(30)})

    async def body(ask, server, http):
        def post():
            return http.post("/v1/grammars/sample", json={"regex": "a"})

        many = [asyncio.ensure_future(post()) for _ in range(40)]
        first = [await each for each in islice(asyncio.as_completed(many), 8)]
        assert {answer.status_code for answer in first} == {503}
        assert {answer.headers["retry-after"] for answer in first} == {"1"}
        gate.set()
        found = [(await each).status_code for each in many]
        assert (found.count(200), found.count(503)) == (32, 8)
        assert {(await post()).status_code for _ in range(40)} == {200}, "there is room again"
        gate.clear()
        monkeypatch.setattr(grammars, "_TIMEOUT", 0.01)
        late = await post()
        assert late.status_code == 503 and late.json()["error"]["code"] == "request_timeout"
        gate.set()

    run(body)


def test_an_inspection_ends_once_its_client_is_answered(monkeypatch):
    begun, ended = threading.Event(), threading.Event()

    def endless(request, seconds):
        try:
            while True:
                spend()
                begun.set()
        finally:
            ended.set()

    async def body(ask, server, http):
        monkeypatch.setattr(grammars, "sample", endless)
        monkeypatch.setattr(grammars, "_TIMEOUT", 600.0)
        asked = asyncio.ensure_future(http.post("/v1/grammars/sample", json={"regex": "a"}))
        assert await asyncio.to_thread(begun.wait, 30) and not ended.is_set()
        asked.cancel()  # the client has disconnected
        assert await asyncio.to_thread(ended.wait, 30)
        begun.clear()
        ended.clear()
        monkeypatch.setattr(grammars, "_TIMEOUT", 0.05)
        late = await http.post("/v1/grammars/sample", json={"regex": "a"})
        assert late.status_code == 503 and late.json()["error"]["code"] == "request_timeout"
        assert await asyncio.to_thread(ended.wait, 30)

    run(body)


def test_a_key_is_needed_and_large_bodies_are_refused():
    async def body(ask, server, http):
        assert (await http.post("/v1/grammars/check", json={"regex": "a"})).status_code == 401
        key = {"Authorization": "Bearer k"}
        assert (await http.post("/v1/grammars/check", json={"regex": "a"}, headers=key)).json()["valid"]
        large = await http.post("/v1/grammars/check", json={"regex": "a" * 2000}, headers=key)
        assert large.status_code == 413

    run(body, api_keys=("k",), max_body=1000)


def test_one_sentence_alone_has_a_bound(monkeypatch):
    monkeypatch.setattr(inspection, "_SAMPLING_SECONDS", 0.0)

    async def body(ask, server, http):
        refused = await http.post("/v1/grammars/sample", json={"regex": "[a-z]{1000}", "max_length": 2000})
        assert refused.status_code == 400 and refused.json()["error"]["param"] == "n"
        assert "only 0 of 5 texts were generated within 0 seconds" in refused.json()["error"]["message"]

    run(body)


def test_the_garbage_collector_pauses_during_an_inspection(monkeypatch):
    """Otherwise it would stop other streams each time that it visits the objects of a large specification."""
    monkeypatch.setattr(grammars, "sample", lambda request, seconds: {"collects": gc.isenabled()})

    async def body(ask, server, http):
        assert gc.isenabled()
        answer = await http.post("/v1/grammars/sample", json={"regex": "a"})
        assert answer.json() == {"collects": False}

    run(body)
    assert gc.isenabled()
