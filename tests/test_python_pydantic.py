"""Types that pydantic reads: generated texts validate, and both refuse slightly different texts. pydantic is the
judge.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import ipaddress
import json
import pathlib
import random
import re
import uuid
import warnings
from typing import Annotated, Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter

from guided import GrammarCompiler, GrammarMatcher, GuidedWarning, JsonSchemaOptions
from guided.errors import UnsupportedError
from guided.frontends.python_types.type_schema import type_to_schema
from guided.frontends.python_types.value_readers import text_reader, value_of
from guided.matching.sentences import byte_vocabulary, draw_sentence
from tests.effort import examples

COMPILER = GrammarCompiler(byte_vocabulary())
PLAIN = JsonSchemaOptions.for_generation().non_defaults()


class Base64(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(val_json_bytes="base64")
    data: Annotated[bytes, Field(min_length=2, max_length=4)]


class Hex(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(val_json_bytes="hex")
    data: Annotated[bytes, Field(max_length=2)]


class Everything(pydantic.BaseModel):
    mail: pydantic.EmailStr
    link: pydantic.HttpUrl | None
    key: pydantic.UUID4
    price: decimal.Decimal
    when: pydantic.AwareDatetime
    where: pathlib.Path
    secret: pydantic.SecretStr
    network: ipaddress.IPv4Network


# type -> texts that are read, texts that are not (the JSON of the values below); pydantic agrees on each
TEXTS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "Field": (Annotated[int, Field(ge=1, le=5)], [1, 5], [0, 6, "1.5", 1.5]),
    "Field of str": (Annotated[str, Field(min_length=1, max_length=3)], ["a", "語語語"], ["", "aaaa", None]),
    "conint": (pydantic.conint(gt=1, multiple_of=3), [3, 6], [0, 1, 4]),
    "PositiveInt": (pydantic.PositiveInt, [1, 10**20], [0, -1, "x"]),
    "NonNegativeFloat": (pydantic.NonNegativeFloat, [0, 0.5, 1e9], [-0.5, "x"]),
    "constr": (pydantic.constr(max_length=2, pattern="^[ab]+$"), ["a", "ab"], ["", "c", "aab"]),
    "constr in Rust": (pydantic.constr(pattern=r"^\d\w\s$"), ["1a ", "٣é\u3000"], ["aa ", "1-  ", "1a"]),
    "constr complement": (pydantic.constr(pattern=r"^\D\W.\S$"), ["a-xb"], ["٣-xb", "aéxb", "a-\nb", "a-x "]),
    "constr stripped": (pydantic.constr(strip_whitespace=True, min_length=2), ["ab", "a b"], [" a", "a", "\u3000a"]),
    "path": (pydantic.create_model("P", p=(pathlib.Path, ...)), [{"p": "a/b"}, {"p": ""}], [{"p": 1}, {}]),
    "bytes": (Annotated[bytes, Field(max_length=3)], ["", "abc"], ["abcd", "éé", 1]),
    "base64 mode": (
        Base64,
        [{"data": t} for t in ("YWE", "YWE=", "YWFh", "YWFhYQ", "YWFhYQ==", "-_8=")],
        [{"data": t} for t in ("", "YQ==", "YR==", "YWFhYWE=", "YWF=", "a")],
    ),
    "hex mode": (Hex, [{"data": t} for t in ("", "aB", "0011")], [{"data": t} for t in ("a", "001122", "zz")]),
    "UUID4": (
        pydantic.UUID4,
        ["c56a4180-65aa-42ec-a945-5fd21dec0538", "C56A4180-65AA-42EC-0945-5FD21DEC0538".replace("-0945", "-8945")],
        ["c56a4180-65aa-12ec-a945-5fd21dec0538", "c56a4180-65aa-42ec-a945", ""],
    ),
    "UUID7": (pydantic.UUID7, ["01890a5d-ac96-774b-bcce-b302099a8057"], ["01890a5d-ac96-474b-bcce-b302099a8057"]),
    "Json": (pydantic.Json, ["{}", "[1, null]", '"a"'], ["", "{", "a"]),
    "IPvAnyAddress": (
        pydantic.IPvAnyAddress,
        ["1.2.3.4", "::1", "::ffff:1.2.3.4"],
        ["1.2.3", "01.2.3.4", ":", "1.2.3.4/8"],
    ),
    "IPvAnyInterface": (
        pydantic.IPvAnyInterface,
        ["1.2.3.4", "1.2.3.4/24", "::1/128", "::1", "1:2:3:4:5:6:7:8/9", "::1.2.3.4/0"],
        ["1.2.3.4/33", "::1/129", "1.2.3.4/", "1::2::3/1", "1:2:3:4:5:6:7:8:9"],
    ),
    "IPvAnyNetwork": (
        pydantic.IPvAnyNetwork,
        ["1.2.3.4", "1.2.3.0/24", "0.0.0.0/0", "10.128.0.0/9", "::/0", "1::/16", "1:2:3:4:5:6:7::/112", "::1/128"],
        ["1.2.3.4/24", "10.64.0.0/9", "1::/15", "1.2.3.4/33", "1:2::/16"],
    ),
    "IPv4Network in a model": (
        pydantic.create_model("N", n=(ipaddress.IPv4Network, ...)),
        [{"n": "1.2.3.0/24"}],
        [{"n": "1.2.3.1/24"}, {"n": "::/0"}],
    ),
    "EmailStr": (
        pydantic.EmailStr,
        ["a@b.co", "A.b!#$%&@x-y.example.com", "a" * 99 + "@b.co", "a@" + "b" * 63 + ".c"],
        [
            "a@b",
            "a@b.test",
            "a@B.LOCALHOST",
            '"a"@b.co',
            "a@[1.2.3.4]",
            "a..b@c.de",
            "a@b.c1",
            "a" * 250 + "@b.co",
            "a@" + "b" * 64 + ".co",
            "a@-b.co",
            "a@b-.co",
            "a@xn--b.co",
            "@b.co",
            "a@b.co .",
        ],
    ),
    "NameEmail": (pydantic.NameEmail, ["a@b.co", "N M <a@b.co>"], ["N <a@b>", "N M", "<a@b.co"]),
    "AnyUrl": (
        pydantic.AnyUrl,
        ["mailto:a@b.co", "http://a", "x://a.b:80/c?d=e#f", "file:///x", "urn:a:b", "http://[::1]/", "http://1.2.3.4"],
        [
            "http://",
            "http:///",
            "http://a:65536",
            "http://1.2.3.4.5/",
            "http://%00/",
            "http://[v1.a]/",
            "a",
            "",
            "http://xn--a/",
            "x://@/",
            "http://a.1/",
        ],
    ),
    "HttpUrl": (
        pydantic.HttpUrl,
        ["http://a", "https://u:p@a.b:1/c%20d?e#f", "HTTPS://A"],
        ["ftp://a", "http:/", "http://a:99999", "https://", "x"],
    ),
    "FileUrl": (pydantic.FileUrl, ["file:///a/b"], ["http://a", "file"]),
    "PostgresDsn": (
        pydantic.PostgresDsn,
        ["postgres://u:p@h:1/d", "postgresql://h1,h2:5432/d", "postgresql+asyncpg://h"],
        ["mysql://h", "postgres:", "postgres://h:99999"],
    ),
    "RedisDsn": (pydantic.RedisDsn, ["redis://h:1/0"], ["http://h", "redis://h:99999"]),
    "SecretStr": (pydantic.SecretStr, ["", "a"], [1, None]),
    "Secret": (pydantic.Secret[int], [1], ["x", None]),
    "Decimal": (
        pydantic.create_model("D", d=(decimal.Decimal, ...)),
        [{"d": 1.5}, {"d": "-1.50"}],
        [{"d": "x"}, {"d": "NaN"}],
    ),
    "condecimal": (
        pydantic.condecimal(max_digits=3, decimal_places=1),
        ["1.5", "99.9", "0.1", "-7", 99.9, 12],
        ["999", "1.55", "100.0", 100, 1.55, "1e5"],
    ),
    "condecimal digits": (
        pydantic.condecimal(max_digits=3),
        ["1.23", "123", "0.123", "12.3"],
        ["1234", "1.234", "0.1234"],
    ),
    "condecimal gt": (pydantic.condecimal(gt=1, decimal_places=2), [1.5, 2], [1, 1.555, 0]),
    "date bounds": (
        pydantic.condate(gt=datetime.date(2019, 12, 31), le=datetime.date(2021, 3, 9)),
        ["2020-01-01", "2021-03-09", "2020-12-31", "2020-02-29"],
        ["2019-12-31", "2021-03-10", "2021-12-01", "1999-09-09", "2021-02-29", "9999-01-01"],
    ),
    "AwareDatetime": (
        pydantic.AwareDatetime,
        ["2020-02-29T00:00:00Z", "0001-01-01t00:00:00.123456+23:59"],
        ["2020-01-01T00:00:00", "0000-01-01T00:00:00Z", "2020-01-01T00:00:60Z", "2020-01-01T00:00:00+24:00"],
    ),
    "NaiveDatetime": (
        pydantic.NaiveDatetime,
        ["2020-02-29T23:59:59", "2000-02-29T00:00:00.5"],
        [
            "2020-01-01T00:00:00Z",
            "2021-02-29T00:00:00",
            "1900-02-29T00:00:00",
            "2020-01-01T24:00:00",
            "0000-01-01T00:00:00",
        ],
    ),
    "timedelta": (
        pydantic.create_model("T", t=(datetime.timedelta, ...)),
        [{"t": t} for t in ("P1D", "P1Y2M3DT4H5M6S", "P999999Y9999999M99999999D", "P99999999W", "PT1S", "PT999999H")],
        [{"t": t} for t in ("P", "PT", "P9999999999Y", "1", "P1H", "PT2360731H")],
    ),
    "ByteSize": (pydantic.ByteSize, [1, "1", "1kb", "1.5 MiB", ".5gb", "2k"], ["1 zz", "x", "", "1e5", -1]),
    "Base64Bytes": (pydantic.Base64Bytes, ["", "YQ==", "/+8=", "YR=="], ["YQ", "a", "YQ="]),
    "Base64Str": (pydantic.Base64Str, ["", "YQ==", "YWI=", "YWFh"], ["/w==", "YQ", "gA=="]),
    "Base64Bytes with lengths": (
        Annotated[pydantic.Base64Bytes, Field(min_length=2, max_length=4)],
        ["YWE=", "YWFh", "YWFhYQ=="],
        ["", "YQ==", "YWFhYWE="],
    ),
    "SecretBytes": (Annotated[pydantic.SecretBytes, Field(max_length=3)], ["", "aaa"], ["aaaa", "éé"]),
    "Base64UrlBytes": (pydantic.Base64UrlBytes, ["", "YQ==", "-_8="], ["YQ", "a"]),
    "Base64UrlStr": (pydantic.Base64UrlStr, ["YQ==", "YWFh"], ["_w==", "YQ"]),
    "Pattern": (
        pydantic.create_model("R", r=(re.Pattern, ...)),
        [{"r": r"[ac]\d+"}, {"r": "a*b?.+"}],
        [{"r": "("}, {"r": "[b"}],
    ),
    "complex": (
        pydantic.create_model("C", c=(complex, ...)),
        [{"c": t} for t in ("1", "1.5-2j", "-3j")],
        [{"c": t} for t in ("", "x", "1 + 2j")],
    ),
    "Fraction": (
        pydantic.create_model("F", f=(fractions.Fraction, ...)),
        [{"f": 1.5}, {"f": "1/2"}, {"f": "-3"}],
        [{"f": "1/0"}, {"f": "x"}],
    ),
    "conlist": (
        pydantic.conlist(pydantic.PositiveInt, min_length=1, max_length=2),
        [[1], [1, 2]],
        [[], [0], [1, 2, 3]],
    ),
}


def grammar(tp: Any, **options: Any):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return COMPILER.compile_type(tp, **options)


@pytest.mark.parametrize("name", TEXTS)
def test_allowed_texts_match_pydantic(name):
    tp, good, bad = TEXTS[name]
    compiled, adapter = grammar(tp), TypeAdapter(tp)
    for value in good:
        text = json.dumps(value, ensure_ascii=False)
        matcher = GrammarMatcher(compiled)
        assert matcher.accept_string(text), (text, str(matcher.explain(text)))
        assert matcher.is_accepting(), text
        assert text_reader(tp)(text) == adapter.validate_json(text)
        assert value_of(tp, value) == adapter.validate_json(text)
    for value in bad:
        text = json.dumps(value, ensure_ascii=False)
        matcher = GrammarMatcher(compiled)
        assert not (matcher.accept_string(text) and matcher.is_accepting()), text
        with pytest.raises(pydantic.ValidationError):
            adapter.validate_json(text)


@pytest.mark.parametrize("name", [*TEXTS, "Everything"])
def test_generated_texts_validate(name):
    tp = TEXTS[name][0] if name in TEXTS else Everything
    compiled, adapter = grammar(tp, **PLAIN), TypeAdapter(tp)
    generator, written = random.Random(name), 0
    for most in (60, 90, 200, 400, 700):
        for _ in range(4):
            if GrammarMatcher(compiled).min_tokens_to_finish() > most:
                continue
            text = draw_sentence(compiled, generator, most, any_character=most in (90, 200))
            try:
                adapter.validate_json(text)
            except pydantic.ValidationError as error:
                raise AssertionError(f"{text!r} was written, and pydantic says {error}") from None
            written += 1
    assert written, "every budget is too small for this type"


def test_types_of_pydantic_stand_inside_of_others():
    tp = dict[str, list[pydantic.PositiveInt] | Annotated[str, Field(max_length=2)]]
    assert value_of(tp, {"a": [1, 2], "b": "xy"}) == {"a": [1, 2], "b": "xy"}
    matcher = GrammarMatcher(grammar(tp))
    assert not matcher.accept_string('{"a": [0]')
    assert GrammarMatcher(grammar(tp)).accept_string('{"a": [1], "b": "xy"}')
    mails = value_of(list[pydantic.HttpUrl], ["http://a"])
    assert isinstance(mails[0], pydantic.HttpUrl)
    assert isinstance(value_of(pydantic.UUID4, str(uuid.uuid4())), uuid.UUID)


@pytest.mark.parametrize(
    ("tp", "reason"),
    [
        (pydantic.FilePath, "whether a file exists is not enforced (file-path)"),
        (pydantic.DirectoryPath, "whether a file exists is not enforced (directory-path)"),
        (pydantic.NewPath, "whether a file exists is not enforced (new-path)"),
        (pydantic.PastDate, "comparison with the current time is not enforced (past-date)"),
        (pydantic.FutureDatetime, "comparison with the current time is not enforced (future-date-time)"),
        (pydantic.Json[int], "the type of the JSON value in a string is not enforced (json-string)"),
        (
            Annotated[datetime.timedelta, Field(gt=datetime.timedelta(1))],
            "a bound on times or durations is not enforced (limited-duration)",
        ),
    ],
)
def test_checks_that_no_grammar_can_express_cause_warnings(tp, reason):
    with pytest.warns(GuidedWarning, match=re.escape(reason)):
        COMPILER.compile_type(tp)
    with pytest.raises(UnsupportedError, match=re.escape(reason)):
        COMPILER.compile_type(tp, strict=True)


def test_classes_that_pydantic_does_not_describe_are_refused():
    with pytest.raises(UnsupportedError, match="since pydantic cannot describe it"):
        type_to_schema(Annotated[type, Field(description="a class")])


def test_paths_and_bytes_need_no_pydantic():
    assert value_of(bytes, "é") == "é".encode()
    assert value_of(pathlib.PurePath, "a/b") == pathlib.PurePath("a/b")
    assert value_of(dict[bytes, pathlib.Path], {"a": "b"}) == {b"a": pathlib.Path("b")}
    assert GrammarMatcher(grammar(list[pathlib.Path])).accept_string('["a"]')
    with pytest.raises(UnsupportedError, match="the keys of a JSON object must be strings"):
        type_to_schema(dict[pathlib.Path, int])


OFFSETS = st.integers(-1439, 1439).map(lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes)))
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    pydantic.UUID4: st.uuids(version=4),
    uuid.UUID: st.uuids(),
    pathlib.PurePosixPath: st.text("ab/.é ", max_size=9).map(pathlib.PurePosixPath),
    pydantic.Base64Bytes: st.binary(max_size=9),
    pydantic.Base64UrlBytes: st.binary(max_size=9),
    pydantic.Base64Str: st.text(st.characters(max_codepoint=127), max_size=9),
    pydantic.AwareDatetime: st.datetimes(timezones=OFFSETS),
    pydantic.NaiveDatetime: st.datetimes(),
    pydantic.condate(ge=datetime.date(2001, 2, 3)): st.dates(min_value=datetime.date(2001, 2, 3)),
    pydantic.condate(lt=datetime.date(2001, 2, 3)): st.dates(max_value=datetime.date(2001, 2, 2)),
    decimal.Decimal: st.decimals(-(10**9), 10**9, places=2),
    pydantic.IPvAnyAddress: st.ip_addresses(),
    ipaddress.IPv4Address: st.ip_addresses(v=4),
    pydantic.IPvAnyInterface: st.builds(
        lambda address, length: ipaddress.ip_interface(f"{address}/{length}"), st.ip_addresses(), st.integers(0, 32)
    ),
    pydantic.IPvAnyNetwork: st.builds(
        lambda address, length: ipaddress.ip_network(f"{address}/{length}", strict=False),
        st.ip_addresses(v=4),
        st.integers(0, 32),
    ),
    datetime.timedelta: st.timedeltas(datetime.timedelta(-(10**8)), datetime.timedelta(10**8)),
    pydantic.PositiveInt: st.integers(min_value=1),
    pydantic.NonNegativeFloat: st.floats(min_value=0, allow_infinity=False),
    bytes: st.text(max_size=5).map(str.encode),
    pydantic.ByteSize: st.integers(min_value=0),
}
GRAMMARS: dict[str, Any] = {}


def compiled(tp: Any) -> Any:
    """The grammar of a member, as it occurs in models; compiled once."""
    if str(tp) not in GRAMMARS:
        GRAMMARS[str(tp)] = grammar(pydantic.create_model("Holder", value=(tp, ...)))
    return GRAMMARS[str(tp)]


def is_allowed(tp: Any, text: str) -> bool:
    matcher = GrammarMatcher(compiled(tp))
    return matcher.accept_string(f'{{"value":{text}}}') and matcher.is_accepting()


@given(st.data(), st.sampled_from(list(VALUES)))
@examples(300)
def test_values_that_pydantic_writes_are_allowed_and_come_back(data, tp):
    value = data.draw(VALUES[tp])
    text = TypeAdapter(tp).dump_json(value).decode()
    assert is_allowed(tp, text), text
    assert TypeAdapter(tp).validate_json(text) == value
    if tp not in (pathlib.PurePosixPath, uuid.UUID, decimal.Decimal, datetime.timedelta):
        assert value_of(tp, json.loads(text)) == value


NEAR = [(tp, value) for tp, good, bad in TEXTS.values() for value in (*good, *bad) if isinstance(value, str)]


@given(
    st.sampled_from(NEAR), st.integers(0, 60), st.sampled_from(["", *"0159aAfgzZ.:/@-_+=%T \n٣é"]), st.integers(0, 1)
)
@examples(500)
def test_near_misses_that_are_allowed_are_read_by_pydantic(near, at, character, length):
    tp, value = near
    text = json.dumps(value[:at] + character + value[at + length :], ensure_ascii=False)
    if is_allowed(tp, text):
        TypeAdapter(tp).validate_json(text)
