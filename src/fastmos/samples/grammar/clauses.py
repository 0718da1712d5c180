"""Clauses in both languages: who does what to whom, when and where, in all tenses and word orders."""

from dataclasses import dataclass, field, replace
from functools import cache

from fastmos.samples.grammar import english, german, verbs, words
from fastmos.samples.grammar.dice import Dice
from fastmos.samples.grammar.german import ACCUSATIVE, DATIVE, MODALS, NOMINATIVE
from fastmos.samples.grammar.phrases import Phrase, adjectives, entries, noun_phrase, object_phrase, place, subject
from fastmos.samples.grammar.times import Time, time

STATES = frozenset(verbs.STATES.split())


@dataclass(frozen=True)
class Action:
    """A verb in both languages and the kinds of nouns it goes with."""

    de: german.Verb
    en: english.Verb
    actors: str = "person"
    objects: str = ""
    preposition: tuple[str, int, str] = ("", 0, "")


@cache
def actions(frame: str) -> list[Action]:
    """The verbs of a frame, the most frequent first."""
    return [_action(entry, frame) for entry in entries(FRAMES[frame])]


FRAMES = {
    "transitive": verbs.TRANSITIVE, "intransitive": verbs.INTRANSITIVE, "dative": verbs.DATIVE,
    "ditransitive": verbs.DITRANSITIVE, "prepositional": verbs.PREPOSITIONAL, "motion": verbs.MOTION,
    "location": verbs.LOCATION, "saying": verbs.SAYING, "trying": verbs.TRYING,
}  # fmt: skip


def _action(entry: str, frame: str) -> Action:
    pair, *kinds = entry.split(" : ")
    left, right = pair.split(" = ")
    action = Action(german.verb(left), english.verb(right))
    if frame == "prepositional":
        preposition, case, after = kinds[0].split()
        governed = (preposition, {"acc": ACCUSATIVE, "dat": DATIVE}[case], after.replace("~", ""))
        return replace(action, preposition=governed, actors=kinds[1], objects=kinds[2])
    if frame == "ditransitive":
        return replace(action, objects=kinds[0])
    return replace(action, actors=kinds[0] if kinds else "person", objects=kinds[1] if len(kinds) > 1 else "")


COPULA = Action(german.Verb("", "sein", "ist", "war", "gewesen", True), english.Verb("be", "was", "been", ""))


@dataclass(frozen=True)
class Clause:
    """One clause before word order is chosen.

    German fields follow the order of the middle field: pronouns, time, objects, nicht, the rest.
    """

    actor: Phrase
    action: Action
    pronouns: list[str] = field(default_factory=list)
    objects: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    en_objects: list[str] = field(default_factory=list)
    en_rest: list[str] = field(default_factory=list)
    time: Time | None = None
    tense: str = "present"  # present past perfect future progressive result since passive, or a modal
    past: bool = False  # of a modal or a passive
    negated: str = ""  # nicht or kein
    gladly: bool = False
    en_actor: Phrase | None = None  # where English has another subject (gefallen: like)
    accusative: Phrase | None = None  # for passives and relative clauses

    @property
    def speaker(self) -> Phrase:
        return self.en_actor or self.actor


def clause(dice: Dice, actor: Phrase | None = None, frame: str | None = None, past: bool | None = None) -> Clause:
    """A clause of any frame; a given actor is kept; `past` fixes the time."""
    frame = frame or dice.weighted(FRAME_WEIGHTS)
    if frame == "copula":
        bare = _copula(dice, actor or subject(dice, dice.pick(["person", "thing", "food", "text", "place", "vehicle"])))
    else:
        choices = actions(frame)
        if actor is not None:
            choices = [action for action in choices if actor.kind in action.actors.split()]
        if not choices:
            return clause(dice, actor, "copula", past)
        bare = _with_arguments(dice, dice.zipf(choices), actor, frame)
    return _negated(dice, _timed(dice, bare, past))


FRAME_WEIGHTS = {
    "transitive": 40, "intransitive": 12, "dative": 6, "ditransitive": 10, "prepositional": 9, "motion": 8,
    "location": 9, "copula": 8,
}  # fmt: skip


def _copula(dice: Dice, actor: Phrase) -> Clause:
    sort = dice.weighted({"plain": 50, "very": 25, "than": 25})
    adjective = dice.zipf(adjectives(actor.kind))
    if sort == "than" and adjective.comparative:
        other = noun_phrase(dice, actor.kind)
        more = adjective.en_comparative or f"more {adjective.en}"
        return Clause(
            actor,
            COPULA,
            rest=[f"{adjective.comparative} als {other.de[NOMINATIVE]}"],
            en_rest=[f"{more} than {other.en}"],
        )
    very = [("sehr ", "very "), ("zu ", "too ")]
    de, en = dice.zipf(very) if sort == "very" else ("", "")
    return Clause(actor, COPULA, rest=[de + adjective.de], en_rest=[en + adjective.en])


def _with_arguments(dice: Dice, action: Action, actor: Phrase | None, frame: str) -> Clause:
    actor = actor or subject(dice, action.actors)
    base = Clause(actor, action)
    if frame == "transitive":
        return _accusative(base, object_phrase(dice, action.objects, actor))
    if frame == "dative":
        whom = object_phrase(dice, action.objects, actor)
        if action.en.base == "like":
            return replace(_dative(base, whom), en_actor=whom, en_objects=[actor.en_object])
        return replace(_dative(base, whom), en_objects=[whom.en_object])
    if frame == "ditransitive":
        return _ditransitive(dice, base)
    if frame == "prepositional":
        preposition, case, after = action.preposition
        what = object_phrase(dice, action.objects, actor)
        if what.pronoun and what.kind != "person":  # German would say darauf, daran ...
            what = noun_phrase(dice, action.objects, actor)
        return replace(
            base, rest=[german.contracted(preposition, what.de[case])], en_rest=[f"{after} {what.en_object}".strip()]
        )
    if frame in ("motion", "location"):
        de, en = place(dice, direction=frame == "motion")
        return replace(base, rest=[de], en_rest=[en])
    if dice.chance(35):
        de, en = dice.zipf(entries(words.MANNER)).split(" = ")
        return replace(base, rest=[de], en_rest=[en])
    return base


def _accusative(base: Clause, what: Phrase) -> Clause:
    form = what.de[ACCUSATIVE]
    placed = replace(base, pronouns=[form]) if what.pronoun else replace(base, objects=[form])
    return replace(placed, en_objects=[what.en_object], accusative=what)


def _dative(base: Clause, whom: Phrase) -> Clause:
    form = whom.de[DATIVE]
    return replace(base, pronouns=[form]) if whom.pronoun else replace(base, objects=[form])


def _ditransitive(dice: Dice, base: Clause) -> Clause:
    whom = object_phrase(dice, "person", base.actor)
    what = noun_phrase(dice, base.action.objects, base.actor)
    verb = base.action.en
    to = verbs.TO_PERSON.get("_".join(filter(None, [verb.base, verb.particle.replace(" ", "_")])))
    given = _dative(base, whom)
    en = [what.en_object, f"{to} {whom.en_object}"] if to else [whom.en_object, what.en_object]
    return replace(given, objects=[*given.objects, what.de[ACCUSATIVE]], en_objects=en, accusative=what)


def _timed(dice: Dice, bare: Clause, past: bool | None) -> Clause:
    """Choose tense and time together; German present may be an English future or perfect."""
    stative = bare.action.en.base in STATES
    if past is None:
        past = dice.chance(42)
    if past:
        tense = "past" if stative or bare.action is COPULA or dice.chance(45) else "perfect"
        if tense == "perfect" and dice.chance(12) and bare.actor.person != 1:
            return replace(bare, tense="result")
        if dice.chance(14) and _willing(bare):
            return replace(bare, tense=dice.pick(PAST_MODALS), past=True, time=_maybe(dice, "past", 15))
        return replace(bare, tense=tense, time=_maybe(dice, "past", 35))
    if bare.action is COPULA:
        return replace(bare, tense="present", time=_maybe(dice, "always", 25))
    sort = dice.weighted({"present": 46, "modal": 26, "future": 10, "progressive": 8, "gladly": 5, "since": 5})
    if sort == "modal" and _willing(bare):
        return replace(bare, tense=dice.zipf(list(MODALS)), time=_maybe(dice, "future", 15))
    if sort == "future":
        return replace(bare, tense=dice.pick(["future", "tomorrow"]), time=time(dice, "future"))
    if sort == "progressive" and not stative:
        return replace(bare, tense="progressive", time=Time("gerade", ""))
    if sort == "gladly" and bare.actor.kind == "person" and not stative:
        return replace(bare, gladly=True)
    if sort == "since" and bare.action.en.base in ("live", "work", "know", "study", "wait", "sleep", "love"):
        return replace(bare, tense="since", time=time(dice, "since"))
    return replace(bare, time=_maybe(dice, "always", 30))


def _willing(bare: Clause) -> bool:
    """Only a living being can, must or wants to; and liking is no act."""
    return bare.actor.kind in ("person", "animal") and bare.action is not COPULA and bare.en_actor is None


PAST_MODALS = [name for name in MODALS if MODALS[name][1]]


def _maybe(dice: Dice, when: str, percent: int) -> Time | None:
    return time(dice, when) if dice.chance(percent) else None


def _negated(dice: Dice, bare: Clause) -> Clause:
    """Say no to some: kein before an indefinite object, nicht elsewhere."""
    often = bare.time is not None and bare.time.inner
    if bare.gladly or often or bare.tense == "since" or not dice.chance(16):
        return bare
    what = bare.accusative
    if what is None or what.without is None:
        return replace(bare, negated="nicht") if _nicht_fits(bare) else bare
    none, en = what.without
    index = bare.objects.index(what.de[ACCUSATIVE])
    objects = [none[ACCUSATIVE] if i == index else form for i, form in enumerate(bare.objects)]
    en_objects = [en if form == what.en_object else form for form in bare.en_objects]
    return replace(bare, negated="kein", objects=objects, en_objects=en_objects, tense=_plain_result(bare.tense))


def _plain_result(tense: str) -> str:
    return "perfect" if tense == "result" else tense


def _nicht_fits(bare: Clause) -> bool:
    """nicht follows definite objects; before an indefinite one German would say kein."""
    return not any(form.split()[0].startswith("ein") for form in bare.objects)
