"""Sentences in both languages: statements, questions, requests, and clauses within clauses."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from fastmos.samples.grammar import clauses, english, german, order, phrases
from fastmos.samples.grammar.clauses import Clause, clause
from fastmos.samples.grammar.dice import Dice
from fastmos.samples.grammar.german import ACCUSATIVE, DATIVE, NOMINATIVE
from fastmos.samples.grammar.phrases import Phrase, noun_phrase, subject
from fastmos.samples.grammar.times import date

Pair = tuple[str, str]


def sentence(dice: Dice) -> Pair:
    """One German sentence and its English translation, tokens apart by spaces."""
    make = SENTENCES[dice.weighted(WEIGHTS)]
    de, en = make(dice)
    return _tidy(de), en


def _tidy(de: str) -> str:
    """A comma that closes a relative clause gives way to other punctuation."""
    for mark in (",", ".", "?", "!"):
        de = de.replace(f" , {mark}", f" {mark}")
    return de


def _statement(dice: Dice) -> Pair:
    this = _with_relative(dice, clause(dice))
    de, en = _ordered(dice, this)
    return f"{de} .", f"{en} ."


def _ordered(dice: Dice, this: Clause) -> Pair:
    """A main clause, with the time in front now and then."""
    movable = this.time is not None and not this.time.inner and bool(this.time.en)
    front = movable and dice.chance(35)
    return order.german_statement(this, front), order.english_statement(this, front)


def _with_relative(dice: Dice, this: Clause) -> Clause:
    """Tell more of the subject, sometimes: der mann , der das buch liest ,"""
    actor = this.actor
    if actor.pronoun or actor.person not in (2, 5) or not actor.en.startswith("the ") or not dice.chance(14):
        return this
    if actor.kind != "person" or dice.chance(65):
        inner = clause(dice, actor)
        who = "who" if actor.kind == "person" else "that"
        if inner.en_actor is not None:
            return this
        relative = german.ending(german.RELATIVE, actor.gender, NOMINATIVE)
        de = order.german_final(inner, relative)
        en = order.english_statement(replace(inner, actor=replace(actor, en=who)))
    else:
        inner = clause(dice, frame="transitive")
        if inner.accusative is None or "person" not in inner.action.objects.split():
            return this
        inner = replace(inner, objects=[], pronouns=[], en_objects=[], negated="")
        relative = german.ending(german.RELATIVE, actor.gender, ACCUSATIVE)
        de = f"{relative} {order.german_final(inner)}"
        en = f"that {order.english_statement(inner)}"
    told = replace(
        actor, de=(f"{actor.de[0]} , {de} ,", *actor.de[1:]), en=f"{actor.en} {en}", en_object=f"{actor.en} {en}"
    )
    if this.en_actor is not None:
        return this
    return replace(this, actor=told)


def _yes_no(dice: Dice) -> Pair:
    this = clause(dice)
    return f"{order.german_inverted(this)} ?", f"{order.english_question(this)} ?"


def _asking(dice: Dice) -> Pair:
    """Questions with wer, was, wo, warum, wann, wie oft."""
    word = dice.weighted({"who": 22, "what": 24, "where": 18, "why": 22, "when": 14})
    if word == "who":
        anyone = Phrase(("wer", "", "", ""), "who", "whom", 2)
        this = clause(dice, anyone)
        if this.en_actor is not None:
            return _yes_no(dice)
        return f"{order.german_statement(this)} ?", f"{order.english_statement(this)} ?"
    if word == "what":
        this = clause(dice, frame="transitive")
        if "thing" not in this.action.objects.split() and "food" not in this.action.objects.split():
            return _yes_no(dice)
        this = replace(this, objects=[], pronouns=[], en_objects=[], negated="")
        return f"{order.german_inverted(this, 'was')} ?", f"{order.english_question(this, 'what')} ?"
    if word == "where":
        this = clause(dice, frame=dice.pick(["location", "motion"]))
        direction = this.action in clauses.actions("motion")
        this = replace(this, rest=[], en_rest=[], negated="")
        asked = "wohin" if direction else "wo"
        return f"{order.german_inverted(this, asked)} ?", f"{order.english_question(this, 'where')} ?"
    this = clause(dice)
    if word == "when":
        this = replace(
            this, time=None, tense={"progressive": "present", "since": "present"}.get(this.tense, this.tense)
        )
        if this.tense == "result":
            this = replace(this, tense="perfect")
        return f"{order.german_inverted(this, 'wann')} ?", f"{order.english_question(this, 'when')} ?"
    return f"{order.german_inverted(this, 'warum')} ?", f"{order.english_question(this, 'why')} ?"


def _request(dice: Dice) -> Pair:
    """mach bitte das fenster auf !"""
    you = phrases.PRONOUNS[4]
    this = clause(dice, you, dice.pick(["transitive", "transitive", "ditransitive", "intransitive"]), past=False)
    if this.action.en.base in clauses.STATES or "person" not in this.action.actors.split():
        return _statement(dice)
    this = replace(this, tense="present", time=None, gladly=False)
    verb = this.action.de
    polite = dice.chance(45)
    no = {"nicht": "do not", "kein": "do not"}.get(this.negated, "")
    de = [verb.imperative(), *this.pronouns, *(["bitte"] if polite else [])]
    de += [*this.objects, *(["nicht"] if this.negated == "nicht" else []), *this.rest, verb.prefix]
    en = ["please" if polite else "", no, *order.predicate(this, this.action.en.plain())]
    return " ".join(filter(None, [*de, "!"])), " ".join(filter(None, [*en, "!"]))


LINKS = {
    "because": ("weil", "because"), "although": ("obwohl", "although"), "if": ("wenn", "if"), "when": ("als", "when"),
    "before": ("bevor", "before"), "while": ("während", "while"), "since": ("da", "since"), "until": ("bis", "until"),
}  # fmt: skip
LINK_WEIGHTS = {"because": 30, "although": 14, "if": 20, "when": 14, "before": 6, "while": 7, "since": 5, "until": 4}


def _subordinate(dice: Dice) -> Pair:
    """Two clauses, one depending on the other, either first."""
    link = dice.weighted(LINK_WEIGHTS)
    past = {"when": True, "if": False}.get(link, dice.chance(45))
    main = clause(dice, past=past)
    if link == "when" and main.tense == "result":
        main = replace(main, tense="perfect")
    again = phrases.echo(main.actor) if dice.chance(35) else None
    under = clause(dice, again, past=past)
    if link in ("when", "if", "before", "until", "while"):
        under = _simple(under)
    de_link, en_link = LINKS[link]
    if again is None and dice.chance(35):
        de = f"{de_link} {order.german_final(under)} , {order.german_inverted(main)} ."
        return de, f"{en_link} {order.english_statement(under)} , {order.english_statement(main)} ."
    de, en = _ordered(dice, main)
    return f"{de} , {de_link} {order.german_final(under)} .", f"{en} {en_link} {order.english_statement(under)} ."


def _simple(this: Clause) -> Clause:
    """Without the tenses that sound odd after wenn and bevor."""
    plain = {"future": "present", "tomorrow": "present", "progressive": "present", "result": "perfect"}
    plain |= {"since": "present"}
    return replace(this, tense=plain.get(this.tense, this.tense), time=None)


def _reported(dice: Dice) -> Pair:
    """ich glaube , dass ..."""
    speaker = subject(dice, "person")
    past = dice.chance(40)
    saying = dice.zipf(clauses.actions("saying"))
    head = Clause(speaker, saying, tense="past" if past else "present")
    again = phrases.echo(speaker) if dice.chance(25) else None
    told = clause(dice, again, past=True if past else None)
    de = f"{order.german_statement(head)} , dass {order.german_final(told)} ."
    return de, f"{order.english_statement(head)} that {order.english_statement(told)} ."


def _two(dice: Dice) -> Pair:
    """Two main clauses."""
    de_link, en_link = dice.zipf([("und", "and"), ("aber", "but"), ("denn", "for"), ("oder", "or")])
    past = dice.chance(50)
    first = clause(dice, past=past)
    second = clause(dice, phrases.echo(first.actor) if dice.chance(40) else None, past=past)
    comma = ", " if de_link != "und" else ""
    de = f"{order.german_statement(first)} {comma}{de_link} {order.german_statement(second)} ."
    return de, f"{order.english_statement(first)} {comma}{en_link} {order.english_statement(second)} ."


def _attempt(dice: Dice) -> Pair:
    """er versucht , das fenster aufzumachen."""
    actor = subject(dice, "person")
    head = Clause(actor, dice.zipf(clauses.actions("trying")), tense=dice.pick(["present", "past", "perfect"]))
    inner = _infinite(dice, actor)
    de = f"{order.german_statement(head)} , {order.german_infinitive(inner)} ."
    return de, f"{order.english_statement(head)} {order.english_infinitive(inner)} ."


def _purpose(dice: Dice) -> Pair:
    """er fährt in die stadt , um ein buch zu kaufen."""
    main = clause(dice, frame=dice.pick(["motion", "motion", "transitive"]))
    if main.actor.kind != "person":
        return _statement(dice)
    inner = _infinite(dice, main.actor)
    if inner.negated:
        return _statement(dice)
    de, en = _ordered(dice, main)
    return f"{de} , um {order.german_infinitive(inner)} .", f"{en} {order.english_infinitive(inner)} ."


def _infinite(dice: Dice, actor: Phrase) -> Clause:
    frame = dice.pick(["transitive", "transitive", "ditransitive", "prepositional", "motion"])
    return replace(clause(dice, actor, frame), time=None, tense="present", gladly=False, past=False)


def _passive(dice: Dice) -> Pair:
    """das haus wurde von dem mann gebaut."""
    active = clause(dice, frame="transitive")
    what = active.accusative
    if what is None or what.pronoun or active.action.en.base in ("have", "need", "get", "miss", "meet"):
        return _statement(dice)
    past = dice.chance(65)
    by = [] if active.actor.pronoun or dice.chance(40) else [active.actor]
    when = active.time if active.time and active.time.en and active.tense in ("past", "perfect") and past else None
    this = Clause(
        what, active.action, tense="passive", past=past, time=when,
        rest=[german.contracted("von", actor.de[DATIVE]) for actor in by],
        en_rest=[f"by {actor.en_object}" for actor in by],
    )  # fmt: skip
    de, en = _ordered(dice, this)
    return f"{de} .", f"{en} ."


def _existence(dice: Dice) -> Pair:
    """es gibt keinen hund im garten: there is no dog in the garden."""
    kinds = dice.pick(["person", "animal", "thing", "place", "event", "food", "building", "drink"])
    tries = (noun_phrase(dice, kinds) for _ in range(8))
    what = next((phrase for phrase in tries if phrase.without or phrase.en.startswith(("many ", "some "))), None)
    if what is None:
        return _statement(dice)
    past, negated = dice.chance(35), what.without is not None and dice.chance(30)
    form = what.without[0][ACCUSATIVE] if negated and what.without else what.de[ACCUSATIVE]
    said = f"no {_bare(what.en)}" if negated else what.en
    de_place, en_place = phrases.place(dice, direction=False)
    de = "gab" if past else "gibt"
    be = english.be(past, what.person)
    if dice.chance(40):
        return f"{de_place} {de} es {form} .", f"{en_place} there {be} {said} ."
    return f"es {de} {form} {de_place} .", f"there {be} {said} {en_place} ."


def _bare(phrase: str) -> str:
    article, _, rest = phrase.partition(" ")
    return rest if article in ("a", "an") else phrase


def _born(dice: Dice) -> Pair:
    """Names, dates, years and places."""
    who = phrases.named(dice)
    when, value = date(dice), 1700 + dice.below(320)
    city, en_city = phrases.town(dice)
    de_verb, en_verb = dice.zipf([("geboren", "was born"), ("begraben", "was buried"), ("gewählt", "was elected")])
    if dice.chance(50):
        de = f"{who.de[0]} wurde im jahr {german.year(value)} in {city} {de_verb} ."
        return de, f"{who.en} {en_verb} in {en_city} in {english.year(value)} ."
    de = f"{who.de[0]} wurde {when.de} {german.year(value)} in {city} {de_verb} ."
    return de, f"{who.en} {en_verb} in {en_city} {when.en} {english.year(value)} ."


def _measure(dice: Dice) -> Pair:
    """Prices and ages in numbers."""
    if dice.chance(35):
        who, count = subject(dice, dice.pick(["person", "person", "animal", "building"])), 2 + dice.below(97)
        this = Clause(who, clauses.COPULA, rest=[f"{german.number(count)} jahre alt"],
                      en_rest=[f"{english.number(count)} years old"])  # fmt: skip
        return f"{order.german_statement(this)} .", f"{order.english_statement(this)} ."
    what = noun_phrase(dice, "thing clothes vehicle furniture text building")
    big = [20, 100, 1000, 10_000, 200_000][dice.below(5)]
    count = 2 + dice.below(big - 2)
    count += count % 100 == 1
    money = dice.zipf([("euro", "euros"), ("dollar", "dollars"), ("franken", "francs")])
    cost = clauses.Action(german.verb("kosten"), english.verb("cost cost cost"))
    this = Clause(what, cost, objects=[f"{german.number(count)} {money[0]}"],
                  en_objects=[f"{english.number(count)} {money[1]}"])  # fmt: skip
    return f"{order.german_statement(this)} .", f"{order.english_statement(this)} ."


def _trade(dice: Dice) -> Pair:
    """anna ist lehrerin , ihr bruder ... : a trade has no article in German."""
    who = phrases.named(dice)
    job = dice.zipf(_trades(who.gender))
    past = dice.chance(30)
    de = f"{who.de[0]} {'war' if past else 'ist'} {job.de.singular}"
    en = f"{who.en} {english.be(past, 2)} {english.article(job.en)}"
    if dice.chance(60):
        second = clause(dice, phrases.echo(who), past=past)
        return f"{de} und {order.german_statement(second)} .", f"{en} and {order.english_statement(second)} ."
    return f"{de} .", f"{en} ."


@cache
def _trades(gender: str) -> list[phrases.Noun]:
    return [noun for noun in phrases.lexicon()["person"] if noun.de.gender == gender and noun.en in TRADES.split()]


TRADES = """
teacher doctor student farmer nurse baker cook painter judge journalist singer actor actress tailor dentist poet
engineer architect gardener mayor soldier policeman saleswoman salesman fisherman philosopher
"""

SENTENCES: dict[str, Callable[[Dice], Pair]] = {
    "statement": _statement, "yes_no": _yes_no, "asking": _asking, "request": _request, "subordinate": _subordinate,
    "reported": _reported, "two": _two, "attempt": _attempt, "purpose": _purpose, "passive": _passive,
    "existence": _existence, "born": _born, "measure": _measure, "trade": _trade,
}  # fmt: skip
WEIGHTS = {
    "statement": 30, "yes_no": 6, "asking": 7, "request": 4, "subordinate": 14, "reported": 8, "two": 7, "attempt": 5,
    "purpose": 4, "passive": 5, "existence": 4, "born": 2, "measure": 3, "trade": 2,
}  # fmt: skip
