"""German inflection: nouns, determiners, adjectives, verbs and numbers of the sample's grammar, lowercased."""

import re
from dataclasses import dataclass

NOMINATIVE, ACCUSATIVE, DATIVE, GENITIVE = range(4)

# Endings by case for masculine, feminine, neuter and plural.
STRONG = {"m": "er en em es", "f": "e e er er", "n": "es es em es", "p": "e e en er"}
DEFINITE = {"m": "der den dem des", "f": "die die der der", "n": "das das dem des", "p": "die die den der"}
RELATIVE = {"m": "der den dem", "f": "die die der", "n": "das das dem", "p": "die die denen"}
WEAK_ADJECTIVE = {"m": "e en en en", "f": "e e en en", "n": "e e en en", "p": "en en en en"}
MIXED_ADJECTIVE = {"m": "er en en en", "f": "e e en en", "n": "es es en en", "p": "en en en en"}
STRONG_ADJECTIVE = {**STRONG, "m": "er en em en", "n": "es es em en"}

CONTRACTIONS = {
    "in dem": "im", "an dem": "am", "zu dem": "zum", "von dem": "vom", "bei dem": "beim", "zu der": "zur",
    "in das": "ins", "an das": "ans",
}  # fmt: skip

INSEPARABLE = ("be", "er", "ver", "ent", "emp", "zer", "ge", "miss", "über", "unter", "wider", "umarm")

SEIN = ["bin bist ist sind seid sind", "war warst war waren wart waren"]
WERDEN = ["werde wirst wird werden werdet werden", "wurde wurdest wurde wurden wurdet wurden"]
IRREGULAR = {"sein": SEIN[0], "wissen": "weiß weißt weiß wissen wisst wissen"}
MODALS = {
    "können": ["kann kannst kann können könnt können", "konnte"],
    "müssen": ["muss musst muss müssen müsst müssen", "musste"],
    "wollen": ["will willst will wollen wollt wollen", "wollte"],
    "sollen": ["soll sollst soll sollen sollt sollen", "sollte"],
    "dürfen": ["darf darfst darf dürfen dürft dürfen", "durfte"],
    "möchten": ["möchte möchtest möchte möchten möchtet möchten", ""],
}

UNIT_NAMES = """
null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn
achtzehn neunzehn
"""
UNITS = UNIT_NAMES.split()
TENS = ["", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]


@dataclass(frozen=True)
class Noun:
    """A German noun: its gender (m, f, n), whether it is weak, and its nominatives; no plural for a mass noun."""

    gender: str
    weak: bool
    singular: str
    plural: str | None

    def form(self, case: int, plural: bool) -> str:
        """The noun in a case and number."""
        if plural:
            assert self.plural is not None
            return self.plural + ("n" if case == DATIVE and not self.plural.endswith(("n", "s")) else "")
        if self.weak and case != NOMINATIVE:
            return self.singular + ("n" if self.singular.endswith(("e", "er", "ar")) else "en")
        if case == GENITIVE and self.gender != "f":
            return self.singular + ("s" if (self.plural or "").endswith("s") else _genitive_ending(self.singular))
        return self.singular


def _genitive_ending(noun: str) -> str:
    """-es after a hissing sound or in a word of one syllable, -s elsewhere."""
    syllables = len(re.findall("[aeiouäöüy]+", noun))
    if noun.endswith("nis"):
        return "ses"
    return "es" if noun.endswith(("s", "ß", "z", "x")) or (syllables == 1 and noun[-1] not in "aeiouäöüh") else "s"


def ending(table: dict[str, str], gender: str, case: int) -> str:
    """One cell of a table of endings or articles."""
    return table[gender].split()[case]


def ein_word(stem: str, gender: str, case: int) -> str:
    """ein, kein, mein ...: like dieser, but bare in three places."""
    bare = (gender == "m" and case == NOMINATIVE) or (gender == "n" and case in (NOMINATIVE, ACCUSATIVE))
    if stem == "euer" and not bare:
        stem = "eur"
    return stem if bare else stem + ending(STRONG, gender, case)


def inflected(adjective: str, table: dict[str, str], gender: str, case: int) -> str:
    """An adjective before its noun."""
    stem = {"hoch": "hoh", "teuer": "teur", "dunkel": "dunkl"}.get(adjective, adjective).removesuffix("e")
    return stem + ending(table, gender, case)


def contracted(preposition: str, phrase: str) -> str:
    """Preposition and phrase, with im, zum, ins ... where German contracts."""
    article, _, rest = phrase.partition(" ")
    short = CONTRACTIONS.get(f"{preposition} {article}")
    return f"{short} {rest}" if short and rest else f"{preposition} {phrase}"


@dataclass(frozen=True)
class Verb:
    """A German verb by its principal parts, without the separable prefix, and whether it takes sein."""

    prefix: str
    infinitive: str
    third: str
    past: str
    participle: str
    sein: bool

    @property
    def stem(self) -> str:
        return self.infinitive.removesuffix("n") if self.infinitive.endswith(("eln", "ern")) else self.infinitive[:-2]

    def present(self, person: int) -> str:
        """The present tense; persons count ich, du, er, wir, ihr, sie from 0."""
        if self.infinitive in IRREGULAR:
            return IRREGULAR[self.infinitive].split()[person]
        stem = self.stem
        if person == 0:
            return stem[:-2] + "le" if stem.endswith("el") else stem + "e"
        if person == 1:
            base = self.third[:-1]
            hissing = base.endswith(("s", "ß", "z", "x"))
            return base + ("t" if hissing else "st")
        if person == 2:
            return self.third
        if person == 4:
            return stem + _link(stem) + "t"
        return self.infinitive

    def preterite(self, person: int) -> str:
        """The simple past."""
        past = self.past
        if past.endswith("e"):
            return past + ["", "st", "", "n", "t", "n"][person]
        hard = past.endswith(("t", "d"))
        second = "est" if hard or past.endswith(("s", "ß")) else "st"
        plural = "n" if past.endswith("ie") else "en"
        return past + ["", second, "", plural, "et" if hard else "t", plural][person]

    def imperative(self) -> str:
        """What one says to a friend."""
        stem = self.stem
        if self.third[:-1] != stem + _link(stem) and "i" in self.third and not set("äöü") & set(self.third):
            return self.third[:-1]
        if stem.endswith("el"):
            return stem[:-2] + "le"
        return stem + ("e" if _link(stem) or stem.endswith("er") else "")

    def perfect_participle(self) -> str:
        return self.prefix + self.participle

    def to_infinitive(self) -> str:
        return f"{self.prefix}zu{self.infinitive}" if self.prefix else f"zu {self.infinitive}"


def verb(text: str) -> Verb:
    """A verb from its line in the word list."""
    first, *parts = text.split()
    sein = first.endswith("*")
    prefix, _, infinitive = first.removesuffix("*").rpartition("+")
    if parts:
        third, past, participle = parts
    else:
        stem = infinitive.removesuffix("n") if infinitive.endswith(("eln", "ern")) else infinitive[:-2]
        third = stem + _link(stem) + "t"
        past = third + "e"
        plain = infinitive.endswith("ieren") or infinitive.startswith(INSEPARABLE)
        participle = third if plain else "ge" + third
    return Verb(prefix, infinitive, third, past, participle, sein)


def _link(stem: str) -> str:
    """The e of arbeitet, öffnet and atmet."""
    clumsy = stem[-1] in "mn" and len(stem) > 2 and stem[-2] not in "aeiouäöülrmnh"
    clumsy = clumsy or stem.endswith(("chn", "ffn"))
    return "e" if stem.endswith(("t", "d")) or clumsy else ""


def modal(name: str, past: bool, person: int) -> str:
    """A form of a modal verb."""
    present, preterite = MODALS[name]
    return preterite + ["", "st", "", "n", "t", "n"][person] if past else present.split()[person]


def number(value: int) -> str:
    """A number from 1 to 999,999 in one word, as it stands before a noun (einundzwanzig, hundertdrei)."""
    if value >= 1000:
        thousands, rest = divmod(value, 1000)
        return ("" if thousands == 1 else number(thousands)) + "tausend" + (number(rest) if rest else "")
    if value >= 100:
        hundreds, rest = divmod(value, 100)
        return ("" if hundreds == 1 else UNITS[hundreds]) + "hundert" + (number(rest) if rest else "")
    if value < 20:
        return UNITS[value]
    tens, unit = divmod(value, 10)
    joined = {0: "", 1: "einund"}.get(unit, UNITS[unit] + "und")
    return joined + TENS[tens]


def ordinal(value: int) -> str:
    """A dative ordinal below 32, as in am dritten mai."""
    special = {1: "ersten", 3: "dritten", 7: "siebten", 8: "achten"}
    return special.get(value) or number(value) + ("ten" if value < 20 else "sten")


def year(value: int) -> str:
    """A year from 1100 to 2099: neunzehnhundertachtzig, zweitausendzwölf."""
    if value >= 2000:
        return number(value)
    hundreds, rest = divmod(value, 100)
    return UNITS[hundreds] + "hundert" + (number(rest) if rest else "")
