"""Dates and times of RFC 3339. Out: one node for each format, built on first use.

The calendar is exact: the days of each month, and February 29 in the leap years of the Gregorian calendar, for years
from 0000 to 9999. A leap second is allowed if the time is 23:59:60 in UTC. `duration` is appendix A. Letters match both
cases, as in ABNF.

Narrower than RFC 3339: the offset next to a leap second is a multiple of 15 minutes, like every offset in use since
1986. All 1,440 offsets would take 66,000 states instead of 5,300, in every grammar with a time.
"""

from __future__ import annotations

from functools import cache

from guided.ir.nodes import Node

from .abnf import DIGIT, alt, any_case, chars, many, optional, seq

__all__ = ["date", "date_time", "duration", "time"]

_MINUTES_PER_DAY = 24 * 60
_LEAP_OFFSET_STEP = 15
"""Minutes between the offsets that are allowed next to a leap second; it divides 60."""


def _two_digits(low: int, high: int) -> Node:
    """A number of two digits from `low` to `high`."""
    tens: dict[tuple[int, int], list[int]] = {}
    for ten in range(low // 10, high // 10 + 1):
        tens.setdefault((max(low - 10 * ten, 0), min(high - 10 * ten, 9)), []).append(ten)
    return alt(*(seq(chars(f"{digits[0]}-{digits[-1]}"), chars(f"{a}-{b}")) for (a, b), digits in tens.items()))


@cache
def date() -> Node:
    """`full-date`."""
    year, century = many(DIGIT, 4, 4), _two_digits(0, 99)
    multiples_of_four = [f"{number:02}" for number in range(0, 100, 4)]
    leap_year = alt(seq(century, alt(*multiples_of_four[1:])), seq(alt(*multiples_of_four), "00"))
    month_day = alt(
        seq(alt("01", "03", "05", "07", "08", "10", "12"), "-", _two_digits(1, 31)),
        seq(alt("04", "06", "09", "11"), "-", _two_digits(1, 30)),
        seq("02-", _two_digits(1, 28)),
    )
    return alt(seq(year, "-", month_day), seq(leap_year, "-02-29"))


@cache
def time() -> Node:
    """`full-time`."""
    minute = _two_digits(0, 59)
    fraction = optional(".", many(DIGIT, 1))
    zulu = chars("Zz")
    offset = alt(zulu, seq(chars("+-"), _two_digits(0, 23), ":", minute))
    cases = [seq(_two_digits(0, 23), ":", minute, ":", minute, fraction, offset)]
    for offset_minutes in range(0, _MINUTES_PER_DAY, _LEAP_OFFSET_STEP):
        offsets = alt(
            f"+{_clock(offset_minutes)}",
            f"-{_clock(_MINUTES_PER_DAY - offset_minutes)}",
            *(() if offset_minutes else (zulu,)),
        )
        cases.append(seq(f"{_clock(offset_minutes - 1)}:60", fraction, offsets))
    return alt(*cases)


def _clock(minutes: int) -> str:
    """The time of day `minutes` after midnight, as hours and minutes."""
    hour, minute = divmod(minutes % _MINUTES_PER_DAY, 60)
    return f"{hour:02}:{minute:02}"


@cache
def date_time() -> Node:
    """`date-time`."""
    return seq(date(), any_case("t"), time())


@cache
def duration() -> Node:
    """`duration` of appendix A. The units in it are consecutive."""
    number = many(DIGIT, 1)

    def chain(units: str) -> tuple[Node, ...]:
        """Consecutive units, beginning with any of them."""
        out: list[Node] = []
        for unit in reversed(units):
            out.append(seq(number, any_case(unit), optional(out[-1])) if out else seq(number, any_case(unit)))
        return tuple(out)

    time_part = seq(any_case("t"), alt(*chain("hms")))
    date_part = seq(alt(*chain("ymd")), optional(time_part))
    return seq(any_case("p"), alt(date_part, time_part, seq(number, any_case("w"))))
