"""English inflection: plurals, verb forms, articles and numbers of the sample's grammar, lowercased."""

from dataclasses import dataclass

UNIT_NAMES = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen
"""
UNITS = UNIT_NAMES.split()
TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
DOUBLED = {"get", "run", "sit", "swim", "cut", "put", "plan", "begin", "forget", "win", "hug"}

BE = ["am are is are are are", "was were was were were were"]


def plural(noun: str) -> str:
    """The regular plural."""
    if noun.endswith(("s", "x", "ch", "sh", "z")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeiou" else noun + "s"


def article(phrase: str) -> str:
    """The phrase with a or an."""
    vowel = phrase[0] in "aeiou" and not phrase.startswith(("uni", "use", "eu", "one"))
    return ("an " if vowel or phrase.startswith("honest") else "a ") + phrase


@dataclass(frozen=True)
class Verb:
    """An English verb by its principal parts; a particle follows the inflected word."""

    base: str
    past: str
    participle: str
    particle: str

    def _with(self, form: str) -> str:
        return f"{form} {self.particle}" if self.particle else form

    def present(self, person: int) -> str:
        """The simple present; persons count i, you, he, we, you, they from 0."""
        if person != 2:
            return self._with(self.base)
        return self._with("has" if self.base == "have" else plural(self.base) if self.base != "go" else "goes")

    def plain(self) -> str:
        return self._with(self.base)

    def preterite(self) -> str:
        return self._with(self.past)

    def perfect(self) -> str:
        return self._with(self.participle)

    def progressive(self) -> str:
        base = self.base
        if base in DOUBLED:
            return self._with(base + base[-1] + "ing")
        if base.endswith("ie"):
            return self._with(base[:-2] + "ying")
        return self._with((base[:-1] if base.endswith("e") and not base.endswith("ee") else base) + "ing")


def verb(text: str) -> Verb:
    """A verb from its line in the word list: `open` or `write wrote written`, particles joined by _."""
    forms = [form.split("_") for form in text.split()]
    base, *particle = forms[0]
    if len(forms) == 1:
        ed = base + "d" if base.endswith("e") else base[:-1] + "ied" if _consonant_y(base) else base + "ed"
        return Verb(base, ed, ed, " ".join(particle))
    return Verb(base, forms[1][0], forms[2][0], " ".join(particle))


def _consonant_y(word: str) -> bool:
    return word.endswith("y") and word[-2] not in "aeiou"


def be(past: bool, person: int) -> str:
    """A form of be."""
    return BE[past].split()[person]


def superlative(comparative: str) -> str:
    """biggest from bigger."""
    return {"better": "best", "worse": "worst"}.get(comparative, comparative.removesuffix("r") + "st")


def number(value: int) -> str:
    """A number from 1 to 999,999 in words: one hundred and twenty-one."""
    if value >= 1000:
        thousands, rest = divmod(value, 1000)
        link = " and " if rest < 100 else " "
        return f"{number(thousands)} thousand" + (link + number(rest) if rest else "")
    if value >= 100:
        hundreds, rest = divmod(value, 100)
        return f"{UNITS[hundreds]} hundred" + (f" and {number(rest)}" if rest else "")
    if value < 20:
        return UNITS[value]
    tens, unit = divmod(value, 10)
    return TENS[tens] + (f"-{UNITS[unit]}" if unit else "")


def ordinal(value: int) -> str:
    """An ordinal below 32."""
    irregular = {1: "first", 2: "second", 3: "third", 5: "fifth", 8: "eighth", 9: "ninth", 12: "twelfth"}
    irregular |= {20: "twentieth", 30: "thirtieth"}
    if value in irregular:
        return irregular[value]
    return f"{TENS[value // 10]}-{ordinal(value % 10)}" if value > 20 else UNITS[value] + "th"


def year(value: int) -> str:
    """A year from 1100 to 2099: nineteen eighty-four, two thousand and twelve."""
    if value >= 2000:
        return number(value)
    hundreds, rest = divmod(value, 100)
    if not rest:
        return f"{UNITS[hundreds]} hundred"
    return f"{UNITS[hundreds]} " + (number(rest) if rest > 9 else f"oh {UNITS[rest]}")
