"""Noun phrases in both languages: determiner, number, adjectives, compound, owner; pronouns and names."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from fastmos.samples.grammar import english, german, nouns, words
from fastmos.samples.grammar.dice import Dice
from fastmos.samples.grammar.german import DATIVE, GENITIVE

GIRLS, BOYS = words.GIRLS.split(), words.BOYS.split()
SURNAMES, SURNAME_ENDS, NAME_STEMS = words.SURNAMES.split(), words.SURNAME_ENDS.split(), words.NAME_STEMS.split()
VILLAGE_ENDS = words.VILLAGE_ENDS.split()
CITIES = [city.partition("=") for city in words.CITIES.split()]
COUNTRIES = [country.partition("=") for country in words.COUNTRIES.split()]


@dataclass(frozen=True)
class Phrase:
    """A noun phrase: its four German cases, and English as subject and as object."""

    de: tuple[str, str, str, str]
    en: str
    en_object: str
    person: int  # ich, du, er, wir, ihr, sie from 0
    gender: str = "p"  # of the relative pronoun
    kind: str = "person"
    pronoun: bool = False
    without: tuple[tuple[str, str, str, str], str] | None = None  # what kein makes of an indefinite phrase
    own: tuple[str, str] | None = None  # its possessive: sein, his


@dataclass(frozen=True)
class Noun:
    """A noun in both languages; a place also has its prepositions."""

    kind: str
    de: german.Noun
    en: str
    en_plural: str
    place: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Adjective:
    de: str
    comparative: str
    superlative: str
    en: str
    en_comparative: str
    kinds: frozenset[str]


PRONOUNS = [
    Phrase(("ich", "mich", "mir", ""), "i", "me", 0, pronoun=True, own=("mein", "my")),
    Phrase(("er", "ihn", "ihm", ""), "he", "him", 2, "m", pronoun=True, own=("sein", "his")),
    Phrase(("sie", "sie", "ihr", ""), "she", "her", 2, "f", pronoun=True, own=("ihr", "her")),
    Phrase(("wir", "uns", "uns", ""), "we", "us", 3, pronoun=True, own=("unser", "our")),
    Phrase(("du", "dich", "dir", ""), "you", "you", 1, pronoun=True, own=("dein", "your")),
    Phrase(("sie", "sie", "ihnen", ""), "they", "them", 5, pronoun=True, own=("ihr", "their")),
    Phrase(("ihr", "euch", "euch", ""), "you", "you", 4, pronoun=True, own=("euer", "your")),
]
THINGS = {gender: Phrase((*forms, ""), "it", "it", 2, gender, "thing", True) for gender, forms in
          {"m": ("er", "ihn", "ihm"), "f": ("sie", "sie", "ihr"), "n": ("es", "es", "ihm")}.items()}  # fmt: skip


@cache
def lexicon() -> dict[str, list[Noun]]:
    """Nouns by kind, the most frequent first."""
    found = {kind: [_noun(kind, entry) for entry in entries(text)] for kind, text in nouns.NOUNS.items()}
    found["place"] = [_noun("place", entry) for entry in entries(nouns.PLACES)]
    return found


def entries(text: str) -> list[str]:
    """The entries of a word list: one a line, or several with semicolons between."""
    return [entry.strip() for line in text.splitlines() for entry in line.split(";") if entry.strip()]


def _noun(kind: str, entry: str) -> Noun:
    left, right = entry.split(" = ")
    *place, gender, singular, plural = left.split()
    one, _, many = right.partition("|")
    noun = german.Noun("m" if gender == "w" else gender, gender == "w", singular, None if plural == "-" else plural)
    return Noun(kind, noun, one, many or english.plural(one), (place[0], place[1]) if place else ("", ""))


@cache
def _candidates(kinds: str) -> list[Noun]:
    """Nouns of several kinds, or named one by one, merged by rank."""
    by_name = {noun.de.singular: noun for kind in lexicon().values() for noun in kind}
    named = [by_name[word] for word in kinds.split() if word in by_name]
    lists = [lexicon()[word] for word in kinds.split() if word in lexicon()]
    ranked = [(rank, place, noun) for place, kind in enumerate(lists) for rank, noun in enumerate(kind)]
    return named + [noun for _, _, noun in sorted(ranked, key=lambda item: item[:2])]


@cache
def _first_halves(kind: str, name: str) -> list[tuple[str, str]]:
    """The stems that form a compound with this noun."""
    halves = []
    for entry in entries(nouns.COMPOUNDS):
        pair, kinds = entry.split(" : ")
        stem, english_word = pair.split(" = ")
        fits = any(name in nouns.HALVES[k].split() if k in nouns.HALVES else k == kind for k in kinds.split())
        if fits and stem not in name:
            halves.append((stem, english_word))
    return halves


@cache
def adjectives(kind: str) -> list[Adjective]:
    """What nouns of this kind can be."""
    found = []
    for entry in entries(words.ADJECTIVES):
        left, right, kinds = entry.replace(" : ", " = ").split(" = ")
        de, comparative, superlative = [*left.split(), "", ""][:3]
        en, en_comparative = [*right.split(), ""][:2]
        adjective = Adjective(de, comparative, superlative, en, en_comparative, frozenset(kinds.split()))
        if kind in adjective.kinds or ("all" in adjective.kinds and kind not in ("food", "drink")):
            found.append(adjective)
    return found


def noun_phrase(dice: Dice, kinds: str, owner: Phrase | None = None, plain: bool = False) -> Phrase:
    """A noun of these kinds with what belongs to it; `owner` may own it (sein hund); `plain` phrases are short."""
    noun = dice.zipf(_candidates(kinds))
    if not plain and dice.chance(25):
        noun = _compounded(dice, noun)
    mass = noun.de.plural is None
    plural = not mass and dice.chance(24)
    weights = MASS if mass else PLURAL if plural else SINGULAR
    determiner = dice.weighted(weights)
    if determiner == "name" and (plain or noun.kind == "person"):
        determiner = "definite"
    if noun.place[0] and determiner not in ("definite", "indefinite"):
        determiner = "definite"
    count = 0 if plain else dice.weighted({"0": 62, "1": 34, "2": 4})
    described = _adjectives(dice, noun.kind, int(count), determiner == "definite" and not mass)
    phrase = _determined(dice, noun, determiner, plural, described, owner)
    belongs = not plain and determiner == "definite" and noun.kind not in ("person", "place") and dice.chance(8)
    return _of_owner(dice, phrase) if belongs else phrase


SINGULAR = {"definite": 46, "indefinite": 28, "possessive": 14, "this": 6, "every": 2, "name": 4}
PLURAL = {"definite": 38, "bare": 16, "number": 18, "possessive": 10, "this": 6, "many": 5, "some": 5, "name": 2}
MASS = {"bare": 60, "definite": 26, "possessive": 8, "this": 6}


def _compounded(dice: Dice, noun: Noun) -> Noun:
    halves = _first_halves(noun.kind, noun.de.singular)
    if not halves:
        return noun
    stem, word = dice.zipf(halves)
    many = None if noun.de.plural is None else stem + noun.de.plural
    de = german.Noun(noun.de.gender, noun.de.weak, stem + noun.de.singular, many)
    return replace(noun, de=de, en=f"{word} {noun.en}", en_plural=f"{word} {noun.en_plural}")


def _adjectives(dice: Dice, kind: str, count: int, superlatives: bool) -> list[tuple[str, str]]:
    """German stems before endings, and English words."""
    chosen: list[tuple[str, str]] = []
    for _ in range(count):
        adjective = dice.zipf(adjectives(kind))
        if superlatives and count == 1 and adjective.superlative and dice.chance(10):
            most = adjective.en_comparative
            chosen.append((adjective.superlative, english.superlative(most) if most else f"most {adjective.en}"))
        elif all(_group(adjective.de) != _group(de) for de, _ in chosen):
            chosen.append((adjective.de, adjective.en))
    return chosen


@cache
def _group(adjective: str) -> str:
    return next((group for group in entries(words.GROUPS) if adjective in group.split()), adjective)


def _determined(
    dice: Dice, noun: Noun, determiner: str, plural: bool, described: list[tuple[str, str]], owner: Phrase | None
) -> Phrase:
    gender = "p" if plural else noun.de.gender
    words_en = [word for _, word in described] + [noun.en_plural if plural else noun.en]
    bare_en = " ".join(words_en)

    def cases(article: Callable[[int], str], table: dict[str, str]) -> tuple[str, str, str, str]:
        forms = []
        for case in range(4):
            before = [german.inflected(stem, table, gender, case) for stem, _ in described]
            forms.append(" ".join(filter(None, [article(case), *before, noun.de.form(case, plural)])))
        return forms[0], forms[1], forms[2], forms[3]

    strong, weak, mixed = german.STRONG_ADJECTIVE, german.WEAK_ADJECTIVE, german.MIXED_ADJECTIVE
    without = None
    if determiner in ("indefinite", "bare"):
        none = cases(lambda case: german.ein_word("kein", gender, case), mixed)
        without = none, english.article(bare_en) if determiner == "indefinite" else f"any {bare_en}"
    if determiner == "definite":
        de, en = cases(lambda case: german.ending(german.DEFINITE, gender, case), weak), f"the {bare_en}"
    elif determiner == "indefinite":
        de, en = cases(lambda case: german.ein_word("ein", gender, case), mixed), english.article(bare_en)
    elif determiner == "possessive":
        whose = owner.own if owner and owner.own and dice.chance(60) else dice.pick([p.own for p in SPEAKERS])
        assert whose is not None
        stem = whose[0]
        de, en = cases(lambda case: german.ein_word(stem, gender, case), mixed), f"{whose[1]} {bare_en}"
    elif determiner in ("this", "every"):
        stem = {"this": "dies", "every": "jed"}[determiner]
        de = cases(lambda case: stem + german.ending(german.STRONG, gender, case), weak)
        en = f"{'these' if plural else determiner} {bare_en}"
    elif determiner == "name":
        name = dice.zipf(OWNERS)
        de, en = cases(lambda case: name + "s", strong), f"{name} 's {bare_en}"
    elif determiner == "number":
        count = dice.zipf(range(2, 13)) if dice.chance(75) else 13 + dice.below(87)
        de, en = cases(lambda case: german.number(count), strong), f"{english.number(count)} {bare_en}"
    elif determiner in ("many", "some"):
        stem = {"many": "viel", "some": "einig"}[determiner]
        de, en = cases(lambda case: stem + german.ending(german.STRONG, "p", case), strong), f"{determiner} {bare_en}"
    else:
        de, en = cases(lambda case: "", strong), bare_en
    own = _own(noun, plural)
    return Phrase(de, en, en, 5 if plural else 2, gender, noun.kind, without=without, own=own)


OWNERS = [name for name in GIRLS + BOYS if name[-1] not in "sxz"]  # the others take an apostrophe
SPEAKERS = [PRONOUNS[0], PRONOUNS[3], PRONOUNS[4], PRONOUNS[0]]


def _own(noun: Noun, plural: bool) -> tuple[str, str] | None:
    if plural:
        return "ihr", "their"
    human = {"m": ("sein", "his"), "f": ("ihr", "her")}
    beast = {"m": ("sein", "its"), "f": ("ihr", "its"), "n": ("sein", "its")}
    return (human if noun.kind == "person" else beast).get(noun.de.gender)


def _of_owner(dice: Dice, phrase: Phrase) -> Phrase:
    """das haus des mannes: the man 's house."""
    owner = noun_phrase(dice, "person", plain=True)
    if owner.person == 5 or not owner.en.startswith(("the ", "my ", "our ", "this ")):
        return phrase
    en = f"{owner.en} 's {phrase.en.removeprefix('the ')}"
    de = tuple(f"{form} {owner.de[GENITIVE]}" for form in phrase.de)
    return replace(phrase, de=(de[0], de[1], de[2], de[3]), en=en, en_object=en)


def named(dice: Dice) -> Phrase:
    """Somebody by name: anna, herr müller, frau weber."""
    girl = dice.chance(50)
    own = ("ihr", "her") if girl else ("sein", "his")
    gender = "f" if girl else "m"
    if dice.chance(25):
        surname = _surname(dice)
        title, inflected_title = ("frau", "frau") if girl else ("herr", "herrn")
        bent = f"{inflected_title} {surname}"
        en = f"{'mrs.' if girl else 'mr.'} {surname}"
        return Phrase((f"{title} {surname}", bent, bent, f"{bent}s"), en, en, 2, gender, own=own)
    name = dice.zipf(GIRLS if girl else BOYS)
    if dice.chance(12):
        name += " " + _surname(dice)
    return Phrase((name, name, name, f"{name}s"), name, name, 2, gender, own=own)


def _surname(dice: Dice) -> str:
    if dice.chance(55):
        return dice.zipf(SURNAMES)
    return dice.zipf(NAME_STEMS) + dice.zipf(SURNAME_ENDS)


def town(dice: Dice) -> tuple[str, str]:
    """A city, or a village whose name is the same in English."""
    if dice.chance(25):
        village = dice.zipf(NAME_STEMS) + dice.zipf(VILLAGE_ENDS)
        return village, village
    de, _, en = dice.zipf(CITIES)
    return de, en


def joined(first: Phrase, second: Phrase) -> Phrase:
    """Two phrases with und between."""
    de = tuple(f"{a} und {b}" for a, b in zip(first.de, second.de, strict=True))
    en = f"{first.en} and {second.en}"
    return Phrase((de[0], de[1], de[2], de[3]), en, en, 5, own=("ihr", "their"))


def subject(dice: Dice, kinds: str) -> Phrase:
    """Who or what does it."""
    if "person" in kinds.split():
        sort = dice.weighted({"pronoun": 30, "name": 20, "pair": 3, "noun": 47})
        if sort == "pronoun":
            return dice.zipf(PRONOUNS)
        if sort == "name":
            return named(dice)
        if sort == "pair":
            return joined(named(dice), named(dice) if dice.chance(50) else noun_phrase(dice, "person", plain=True))
    return noun_phrase(dice, kinds)


def object_phrase(dice: Dice, kinds: str, actor: Phrase) -> Phrase:
    """Whom or what it concerns; never a pronoun that could mean the actor."""
    if kinds.split()[0] == "person":
        sort = dice.weighted({"pronoun": 22, "name": 16, "noun": 62})
        if sort == "pronoun":
            other = dice.zipf(PRONOUNS)
            if not _overlap(actor, other):
                return other
        if sort == "name":
            return named(dice)
    elif dice.chance(5):
        return THINGS["n"]
    return noun_phrase(dice, kinds, actor)


def _overlap(a: Phrase, b: Phrase) -> bool:
    """First persons exclude each other as actor and object, and so do second persons (ich sehe uns)."""
    return ({a.person, b.person} <= {0, 3}) or ({a.person, b.person} <= {1, 4})


def echo(phrase: Phrase) -> Phrase | None:
    """The pronoun that takes a phrase up again, where that is plain."""
    if phrase.pronoun:
        return phrase
    if phrase.person == 5:
        return PRONOUNS[5]
    if phrase.kind == "person":
        return {"m": PRONOUNS[1], "f": PRONOUNS[2]}.get(phrase.gender)
    return THINGS[phrase.gender]


def place(dice: Dice, direction: bool) -> tuple[str, str]:
    """A place where, or to which."""
    sort = dice.weighted({"noun": 62, "city": 26, "country": 6, "home": 6})
    if sort == "home":
        return ("nach hause", "home") if direction else ("zu hause", "at home")
    if sort != "noun":
        de, en = town(dice) if sort == "city" else dice.zipf(COUNTRIES)[::2]
        return (f"nach {de}", f"to {en}") if direction else (f"in {de}", f"in {en}")
    noun = dice.zipf(lexicon()["place"])
    described = _adjectives(dice, "place", 1 if dice.chance(25) else 0, False)
    determiner = "definite" if dice.chance(75) else "indefinite"
    phrase = _determined(dice, noun, determiner, False, described, None)
    case = german.ACCUSATIVE if direction else DATIVE
    preposition, english_preposition = noun.place
    return (
        german.contracted(preposition, phrase.de[case]),
        f"{'to' if direction else english_preposition} {phrase.en}",
    )
