"""Expressions of time in both languages."""

from dataclasses import dataclass

from fastmos.samples.grammar import english, german, words
from fastmos.samples.grammar.dice import Dice


@dataclass(frozen=True)
class Time:
    """An expression of time; an inner one stands beside the English verb (often)."""

    de: str
    en: str
    inner: bool = False


OFTEN = [
    Time("oft", "often", True), Time("immer", "always", True), Time("nie", "never", True),
    Time("manchmal", "sometimes", True), Time("selten", "rarely", True), Time("meistens", "usually", True),
]  # fmt: skip
ANY = [
    Time("heute", "today"), Time("jetzt", "now"), Time("am abend", "in the evening"),
    Time("am morgen", "in the morning"), Time("in der nacht", "at night"), Time("am wochenende", "on the weekend"),
    Time("am nachmittag", "in the afternoon"), Time("im sommer", "in summer"), Time("im winter", "in winter"),
    Time("im frühling", "in spring"), Time("im herbst", "in fall"), Time("nach der arbeit", "after work"),
    Time("vor dem essen", "before dinner"), Time("jeden tag", "every day"), Time("jede woche", "every week"),
    Time("jeden morgen", "every morning"), Time("zweimal im monat", "twice a month"),
]  # fmt: skip
PAST = [
    Time("gestern", "yesterday"), Time("heute", "today"), Time("gestern abend", "last night"),
    Time("letzte woche", "last week"), Time("letztes jahr", "last year"), Time("letzten monat", "last month"),
    Time("vorgestern", "the day before yesterday"), Time("früher", "in the past"), Time("damals", "back then"),
    Time("letzten sommer", "last summer"), Time("vor kurzem", "recently"),
]  # fmt: skip
FUTURE = [
    Time("morgen", "tomorrow"), Time("bald", "soon"), Time("nächste woche", "next week"),
    Time("nächstes jahr", "next year"), Time("übermorgen", "the day after tomorrow"), Time("später", "later"),
    Time("nächsten monat", "next month"), Time("morgen früh", "tomorrow morning"), Time("heute abend", "tonight"),
    Time("nächsten winter", "next winter"),
]  # fmt: skip
SPANS = [
    ("tag", "tage", "tagen", "day"), ("jahr", "jahre", "jahren", "year"), ("stunde", "stunden", "stunden", "hour"),
    ("monat", "monate", "monaten", "month"), ("woche", "wochen", "wochen", "week"),
    ("minute", "minuten", "minuten", "minute"),
]  # fmt: skip
WEEKDAYS, MONTHS = words.WEEKDAYS.split(), words.MONTHS.split()


def time(dice: Dice, when: str) -> Time:
    """A time that fits past, future, always or since."""
    if when == "since":
        return _since(dice)
    sort = dice.weighted({"word": 56, "often": 10, "day": 12, "clock": 10, "month": 7, "ago": 5})
    if sort == "often" and when != "future":
        return dice.zipf(OFTEN)
    if sort == "day":
        de, _, en = dice.zipf(WEEKDAYS).partition("=")
        return Time(f"am {de}", f"on {en}")
    if sort == "month":
        return date(dice) if dice.chance(50) else _month(dice)
    if sort == "clock":
        return _clock(dice)
    if sort == "ago" and when == "past":
        count = dice.zipf(range(2, 40))
        _, _, many, en = dice.zipf(SPANS)
        return Time(f"vor {german.number(count)} {many}", f"{english.number(count)} {en}s ago")
    return dice.zipf({"past": PAST, "future": FUTURE, "always": ANY}[when])


def _since(dice: Dice) -> Time:
    count = dice.zipf(range(2, 30))
    _, _, many, en = dice.zipf(SPANS)
    return Time(f"seit {german.number(count)} {many}", f"for {english.number(count)} {en}s")


def _month(dice: Dice) -> Time:
    de, _, en = dice.zipf(MONTHS).partition("=")
    return Time(f"im {de}", f"in {en}")


def date(dice: Dice) -> Time:
    """A day of a month: am dritten mai."""
    de, _, en = dice.zipf(MONTHS).partition("=")
    day = 1 + dice.below(28)
    return Time(f"am {german.ordinal(day)} {de}", f"on the {english.ordinal(day)} of {en}")


def _clock(dice: Dice) -> Time:
    """A time of day; halb drei is half past two."""
    hour = 1 + dice.below(12)
    de, en = german.number(hour), english.number(hour)
    before = english.number((hour - 2) % 12 + 1)
    return dice.zipf(
        [
            Time(f"um {'ein' if hour == 1 else de} uhr", f"at {en} o'clock"),
            Time(f"um halb {de}", f"at half past {before}"),
            Time(f"um viertel nach {de}", f"at a quarter past {en}"),
            Time(f"um viertel vor {de}", f"at a quarter to {en}"),
            Time(f"um zehn nach {de}", f"at ten past {en}"),
            Time(f"um zwanzig vor {de}", f"at twenty to {en}"),
        ]
    )
