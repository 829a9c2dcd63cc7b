"""Ten small extraction tasks: a schema, and a text that contains the requested values. Strings and arrays are bounded.

`ANSWERS` has the right values of each, in lower case. Values that the text does not contain are left out. A tuple lists
alternative answers.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["ANSWERS", "INSTRUCTIONS", "TASKS", "is_json"]

INSTRUCTIONS = (
    "You read messages that customers, partners and machines send to a company, and write down what they say as JSON. "
    "Copy names, addresses and numbers exactly as they stand in the message. Do not invent anything: where the message "
    "says nothing about a field, write the shortest value that the field allows. Dates are written as year, month and "
    "day. Amounts are numbers without a currency. Answer with one JSON object and nothing else."
)


def _text(most: int = 40) -> dict[str, Any]:
    return {"type": "string", "maxLength": most}


def _number(most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": most}


def _list(items: dict[str, Any], most: int = 3) -> dict[str, Any]:
    return {"type": "array", "items": items, "maxItems": most}


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


TASKS: list[tuple[str, dict[str, Any]]] = [
    (
        "Hello, this is Maria Silva, I am 34 and I live in Lisbon. I would like to talk to somebody about a job.",
        _object(full_name=_text(), age_in_years=_number(120), place_of_residence=_text()),
    ),
    (
        "Please send two oak tables and one copper lamp to Rua Augusta 12, Lisboa. I have paid 480 euros by card.",
        _object(
            ordered_items=_list(_object(item_name=_text(), number_of_pieces=_number(99))),
            delivery_address=_text(),
            payment_method={"enum": ["credit_card", "bank_transfer", "cash_on_delivery"]},
        ),
    ),
    (
        "The team meets on 12 May 2026 at ten in room 4 to plan the budget. Ana and Joe will be there.",
        _object(
            meeting_subject=_text(),
            meeting_date={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
            participants=_list(_text(24)),
            meeting_room_number=_number(99),
        ),
    ),
    (
        "ERROR 2026-03-04 disk full on host db-3, service postgres stopped, 0 bytes left, please call the operator.",
        _object(
            severity_of_event={"enum": ["debug", "information", "warning", "error", "critical"]},
            name_of_host=_text(24),
            name_of_service=_text(24),
            bytes_left_on_disk=_number(999999),
        ),
    ),
    (
        "I bought the kettle last week. It heats fast, but the lid is loose and it leaks. Three of five stars.",
        _object(
            product_name=_text(24),
            number_of_stars={"type": "integer", "minimum": 1, "maximum": 5},
            positive_points=_list(_text()),
            negative_points=_list(_text()),
            would_buy_again={"type": "boolean"},
        ),
    ),
    (
        "Flight TP 1234 from Lisbon to Oslo leaves at 07:40 from gate 12. There are 3 seats left in economy.",
        _object(
            flight_number=_text(12),
            departure_airport=_text(24),
            destination_airport=_text(24),
            departure_gate=_number(99),
            cabin_class={"enum": ["economy", "premium_economy", "business", "first"]},
        ),
    ),
    (
        "Invoice 2026-118 of Kline Ltd: consulting, 12 hours, 1,440 in all, due in 30 days.",
        _object(
            invoice_number=_text(16),
            name_of_company=_text(),
            amount_in_total=_number(99999),
            days_until_due=_number(365),
            is_already_paid={"type": "boolean"},
        ),
    ),
    (
        "Mix 200 g flour with 2 eggs and some milk, rest for 20 minutes, then bake thin pancakes in butter.",
        _object(
            name_of_recipe=_text(24),
            list_of_ingredients=_list(_object(ingredient_name=_text(20), quantity_in_grams=_number(9999)), 2),
            preparation_minutes=_number(999),
        ),
    ),
    (
        "Rex is a brown dog, 7 years old, 21 kilos. He was vaccinated last year and belongs to Tom Hart.",
        _object(
            name_of_animal=_text(20),
            species_of_animal={"enum": ["dog", "cat", "bird", "rabbit", "horse", "other"]},
            weight_in_kilograms=_number(999),
            name_of_owner=_text(),
            is_vaccinated={"type": "boolean"},
        ),
    ),
    (
        "Turn the light in the kitchen to 40 percent and close the blinds, please.",
        _object(
            actions_to_perform=_list(
                _object(
                    device_name=_text(20),
                    room_of_the_house={"enum": ["kitchen", "bedroom", "bathroom", "living_room", "hall"]},
                    percentage_value=_number(100),
                )
            )
        ),
    ),
]

ANSWERS: list[dict[str, Any]] = [
    {"full_name": "maria silva", "age_in_years": 34, "place_of_residence": "lisbon"},
    {
        "ordered_items": [
            {"item_name": ("oak tables", "oak table"), "number_of_pieces": 2},
            {"item_name": ("copper lamp", "copper lamps"), "number_of_pieces": 1},
        ],
        "delivery_address": ("rua augusta 12, lisboa", "rua augusta 12"),
        "payment_method": "credit_card",
    },
    {
        "meeting_subject": (
            *("plan the budget", "planning the budget", "budget", "budget plan", "budget planning", "budget meeting"),
        ),
        "meeting_date": "2026-05-12",
        "participants": ["ana", "joe"],
        "meeting_room_number": 4,
    },
    {"severity_of_event": "error", "name_of_host": "db-3", "name_of_service": "postgres", "bytes_left_on_disk": 0},
    {
        "product_name": ("kettle", "the kettle"),
        "number_of_stars": 3,
        "positive_points": [("heats fast", "it heats fast", "heating fast", "heats up fast")],
        "negative_points": [("lid is loose", "the lid is loose", "loose lid"), ("leaks", "it leaks")],
    },
    {
        "flight_number": ("tp 1234", "tp1234"),
        "departure_airport": "lisbon",
        "destination_airport": "oslo",
        "departure_gate": 12,
        "cabin_class": "economy",
    },
    {
        "invoice_number": "2026-118",
        "name_of_company": "kline ltd",
        "amount_in_total": 1440,
        "days_until_due": 30,
        "is_already_paid": False,
    },
    {
        "name_of_recipe": ("pancakes", "thin pancakes", "pancake"),
        "list_of_ingredients": [
            {"ingredient_name": "flour", "quantity_in_grams": 200},
            {"ingredient_name": ("eggs", "egg", "2 eggs")},
        ],
        "preparation_minutes": 20,
    },
    {
        "name_of_animal": "rex",
        "species_of_animal": "dog",
        "weight_in_kilograms": 21,
        "name_of_owner": "tom hart",
        "is_vaccinated": True,
    },
    {
        "actions_to_perform": [
            {
                "device_name": ("light", "lights", "the light", "kitchen light"),
                "room_of_the_house": "kitchen",
                "percentage_value": 40,
            },
            {"device_name": ("blinds", "the blinds", "blind")},
        ]
    },
]


def is_json(text: str) -> bool:
    """Whether an answer is complete JSON."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
