"""The specifications, and the texts that are walked under them. Seeds are fixed, so every run walks the same texts.

`ORDER` is a nested object of 54 members on 4 levels. `order_instances` are its instances, as `json.dumps` writes them,
with members in declared order. `PATTERNS` are specifications that explode if repetition is unrolled. `WARM_UP` is
unlike both and runs first, so that a library's one-time work does not count as work on a specification. `LARK_WARM_UP`
also has a grammar.
"""

from __future__ import annotations

import json
import random
import string
from dataclasses import dataclass
from typing import Any

__all__ = ["LARK_WARM_UP", "NESTED_ARRAYS", "ORDER", "PATTERNS", "WARM_UP", "Workload", "order_instances"]

_CODE = {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4,8}$"}
_DATE = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}
_TEXT = {"type": "string"}
_MONEY = {
    "type": "object",
    "properties": {"amount": {"type": "number"}, "currency": {"enum": ["EUR", "USD", "GBP", "JPY", "CHF"]}},
    "required": ["amount", "currency"],
    "additionalProperties": False,
}
_ADDRESS = {
    "type": "object",
    "properties": {
        "street": _TEXT,
        "house_number": {"type": "string", "maxLength": 12},
        "postal_code": {"type": "string", "pattern": "^[0-9]{5}$"},
        "city": _TEXT,
        "country": {"type": "string", "pattern": "^[A-Z]{2}$"},
        "position": {
            "type": "object",
            "properties": {"latitude": {"type": "number"}, "longitude": {"type": "number"}},
            "required": ["latitude", "longitude"],
            "additionalProperties": False,
        },
    },
    "required": ["street", "postal_code", "city", "country"],
    "additionalProperties": False,
}
ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order_id": _CODE,
        "created": _DATE,
        "status": {"enum": ["draft", "placed", "paid", "shipped", "delivered", "returned", "cancelled"]},
        "priority": {"type": "integer", "minimum": 0, "maximum": 9},
        "customer": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 80},
                "email": {"type": "string", "pattern": "^[a-z0-9._]+@[a-z0-9]+\\.[a-z]{2,6}$"},
                "phone": {"anyOf": [{"type": "string", "pattern": "^\\+[0-9]{6,14}$"}, {"type": "null"}]},
                "vip": {"type": "boolean"},
                "language": {"enum": ["en", "de", "fr", "es", "pt", "ja"]},
                "billing": _ADDRESS,
                "delivery": _ADDRESS,
            },
            "required": ["name", "email", "vip", "billing"],
            "additionalProperties": False,
        },
        "items": {
            "type": "array",
            "minItems": 1,
            "maxItems": 50,
            "items": {
                "type": "object",
                "properties": {
                    "sku": _CODE,
                    "title": _TEXT,
                    "quantity": {"type": "integer", "minimum": 1, "maximum": 999},
                    "price": _MONEY,
                    "weight_kg": {"type": "number"},
                    "tags": {"type": "array", "items": {"type": "string", "maxLength": 24}, "maxItems": 8},
                    "gift": {"type": "boolean"},
                    "options": {
                        "type": "object",
                        "properties": {
                            "colour": {"enum": ["black", "white", "red", "green", "blue", "silver"]},
                            "size": {"enum": ["XS", "S", "M", "L", "XL"]},
                            "engraving": {"type": "string", "maxLength": 40},
                        },
                        "additionalProperties": False,
                    },
                },
                "required": ["sku", "title", "quantity", "price"],
                "additionalProperties": False,
            },
        },
        "payment": {
            "type": "object",
            "properties": {
                "method": {"enum": ["card", "invoice", "transfer", "voucher"]},
                "card": {
                    "type": "object",
                    "properties": {
                        "brand": {"enum": ["visa", "mastercard", "amex"]},
                        "last4": {"type": "string", "pattern": "^[0-9]{4}$"},
                        "expires": {"type": "string", "pattern": "^(0[1-9]|1[0-2])/[0-9]{2}$"},
                    },
                    "required": ["brand", "last4"],
                    "additionalProperties": False,
                },
                "total": _MONEY,
                "paid": {"type": "boolean"},
            },
            "required": ["method", "total"],
            "additionalProperties": False,
        },
        "notes": {"type": "array", "items": _TEXT},
        "comment": {"anyOf": [_TEXT, {"type": "null"}]},
    },
    "required": ["order_id", "created", "status", "customer", "items", "payment"],
    "additionalProperties": False,
}

_VOCABULARY = """
please leave the parcel with our neighbours if nobody opens wooden table oak lamp copper kettle
notebook hand made coffee grinder ceramic cup blue winter coat wool scarf cotton sheets running
shoes trail backpack water bottle headphones wireless keyboard charging cable adapter camera tripod
lens cap birthday present wrapped separately second delivery attempt after six in the evening call
before arrival fragile handle with care spare parts set of four large small returned because wrong
size exchange requested thank you very much café crème façade naïve Zürich Málaga São Paulo 北京 東京
señor über größer
"""
_WORDS = _VOCABULARY.split()
_NAMES = [
    "Maria Silva",
    "João Pereira",
    "Anne-Sophie Müller",
    "John O'Neill",
    "Keiko Tanaka",
    "Lars Ångström",
    "Wei Chen",
]
_CITIES = ["Lisboa", "München", "New York", "Lyon", "Osaka", "Genève", "Porto Alegre", "Leeds"]


def order_instances(count: int = 24, seed: int = 20) -> list[str]:
    """Instances of `ORDER`, as JSON text."""
    rng = random.Random(seed)
    return [json.dumps(_order(rng), ensure_ascii=False) for _ in range(count)]


def _order(rng: random.Random) -> dict[str, Any]:
    name = rng.choice(_NAMES)
    customer = {
        "name": name,
        "email": f"{''.join(c for c in name.lower() if c in string.ascii_lowercase)}@example.org",
        "phone": rng.choice([None, f"+{rng.randrange(10**9, 10**11)}"]),
        "vip": rng.random() < 0.3,
        "language": rng.choice(["en", "de", "fr", "es", "pt", "ja"]),
        "billing": _address(rng),
        "delivery": _address(rng),
    }
    whole = {
        "order_id": f"ORD-{rng.randrange(10**4, 10**8)}",
        "created": f"20{rng.randrange(10, 30)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
        "status": rng.choice(["draft", "placed", "paid", "shipped", "delivered", "returned", "cancelled"]),
        "priority": rng.randrange(10),
        "customer": _some(rng, customer, {"phone", "language", "delivery"}),
        "items": [_item(rng) for _ in range(rng.randrange(1, 5))],
        "payment": _payment(rng),
        "notes": [_sentence(rng, 4, 30) for _ in range(rng.randrange(3))],
        "comment": rng.choice([None, _sentence(rng, 5, 40) + '\n"quoted" \\ and so on']),
    }
    return _some(rng, whole, {"priority", "notes", "comment"})


def _address(rng: random.Random) -> dict[str, Any]:
    address = {
        "street": _sentence(rng, 1, 3) + " street",
        "house_number": f"{rng.randrange(1, 400)}{rng.choice(['', 'a', ' b'])}",
        "postal_code": f"{rng.randrange(10**5):05}",
        "city": rng.choice(_CITIES),
        "country": rng.choice(["PT", "DE", "US", "FR", "JP", "CH", "BR", "GB"]),
        "position": {"latitude": round(rng.uniform(-90, 90), 5), "longitude": round(rng.uniform(-180, 180), 5)},
    }
    return _some(rng, address, {"house_number", "position"})


def _item(rng: random.Random) -> dict[str, Any]:
    item = {
        "sku": f"{''.join(rng.choices(string.ascii_uppercase, k=3))}-{rng.randrange(10**3, 10**8):04}",
        "title": _sentence(rng, 2, 8),
        "quantity": rng.choice([1, 1, 1, 2, 3, 12, 250]),
        "price": _money(rng),
        "weight_kg": rng.choice([1, 0.25, 12.5, 3e-2]),
        "tags": rng.sample(_WORDS, k=rng.randrange(5)),
        "gift": rng.random() < 0.5,
        "options": _some(
            rng,
            {"colour": rng.choice(["black", "red", "silver"]), "size": "XL", "engraving": _sentence(rng, 1, 4)[:40]},
            {"colour", "size", "engraving"},
        ),
    }
    return _some(rng, item, {"weight_kg", "tags", "gift", "options"})


def _payment(rng: random.Random) -> dict[str, Any]:
    card = {"brand": rng.choice(["visa", "amex"]), "last4": f"{rng.randrange(10**4):04}", "expires": "07/31"}
    payment = {
        "method": rng.choice(["card", "invoice", "transfer", "voucher"]),
        "card": _some(rng, card, {"expires"}),
        "total": _money(rng),
        "paid": rng.random() < 0.5,
    }
    return _some(rng, payment, {"card", "paid"})


def _money(rng: random.Random) -> dict[str, Any]:
    return {"amount": round(rng.uniform(0.5, 3000), 2), "currency": rng.choice(["EUR", "USD", "GBP", "JPY", "CHF"])}


def _sentence(rng: random.Random, low: int, high: int) -> str:
    return " ".join(rng.choices(_WORDS, k=rng.randint(low, high)))


def _some(rng: random.Random, value: dict[str, Any], optional: set[str]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in optional or rng.random() < 0.7}


@dataclass(frozen=True)
class Workload:
    """A specification, texts of its language, and the number of tokens of each to walk (None: all, and the end)."""

    name: str
    kind: str
    text: str
    instances: tuple[str, ...]
    most: int | None = None


def _patterns() -> list[Workload]:
    rng = random.Random(3)
    letters = "".join(rng.choices(string.ascii_letters + string.digits + "_", k=200))
    prose = " ".join(rng.choices(_WORDS, k=900))[:5000]
    emails = tuple(f"{rng.choice(_WORDS[:40])}.{rng.choice(_WORDS[:40])}{i}@mail-{i}.example.org" for i in range(12))
    numbers = json.dumps([rng.randrange(10**4) for _ in range(10_000)])
    titles = json.dumps([rng.choice(_WORDS[:60]) for _ in range(10_000)])
    email = r"[a-zA-Z0-9._%+-]{1,64}@([a-zA-Z0-9-]{1,63}\.){1,8}[a-zA-Z]{2,63}"
    return [
        Workload(r"`\w{1,200}`", "regex", r"\w{1,200}", (letters, "the_first_identifier_that_comes_to_mind")),
        Workload("`.{0,5000}`", "regex", ".{0,5000}", (prose,), 80),
        Workload("e-mail address", "regex", email, emails),
        Workload("up to 10,000 integers", "json_schema", _array({"type": "integer"}, 0), (numbers,), 800),
        Workload("exactly 10,000 integers", "json_schema", _array({"type": "integer"}, 10_000), (numbers,), 800),
        Workload("exactly 10,000 strings", "json_schema", _array({"type": "string"}, 10_000), (titles,), 800),
    ]


def _array(items: dict[str, Any], min_items: int) -> str:
    return json.dumps({"type": "array", "items": items, "minItems": min_items, "maxItems": 10_000})


PATTERNS = _patterns()
NESTED_ARRAYS = json.dumps({"type": "array", "items": {"$ref": "#"}})
WARM_UP: list[tuple[str, str, list[str]]] = [
    ("json_schema", json.dumps({"type": "array", "items": {"type": "integer"}}), ["[1, 20, 300]"]),
    (
        "json_schema",
        json.dumps(
            {
                "type": "object",
                "properties": {
                    "title": {"type": "string"},
                    "year": {"type": "integer", "minimum": 1900, "maximum": 2100},
                    "rating": {"type": "number"},
                    "genre": {"enum": ["drama", "comedy", "documentary"]},
                    "cast": {"type": "array", "items": {"type": "string", "maxLength": 60}},
                    "seen": {"type": "boolean"},
                },
                "required": ["title", "year"],
                "additionalProperties": False,
            }
        ),
        [
            '{"title": "A quiet evening", "year": 1987, "rating": 7.5, "genre": "drama", "cast": ["A. B", "C"]}',
            '{"title": "Über uns", "year": 2012, "seen": true}',
        ],
    ),
    ("regex", "[0-9]{4}-[0-9]{2}", ["2024-05"]),
    ("regex", "(red|green|blue)( (red|green|blue)){0,4}", ["red blue green"]),
]
LARK_WARM_UP = [*WARM_UP, ("lark", 'start: "a" WORD ";"\nWORD: /[a-z]+/\n%ignore " "', ["a bc;"])]
