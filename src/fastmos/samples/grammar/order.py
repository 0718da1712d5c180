"""Word order and verb forms: German with its verb second, first or last; English statements and questions."""

from fastmos.samples.grammar import english, german, verbs
from fastmos.samples.grammar.clauses import Clause
from fastmos.samples.grammar.german import MODALS, NOMINATIVE


def german_verb(this: Clause) -> tuple[str, list[str]]:
    """The finite verb, and what of the verb closes the clause."""
    verb, person = this.action.de, this.actor.person
    closing = [verb.prefix] if verb.prefix else []
    if this.tense in ("perfect", "result"):
        auxiliary = german.SEIN[0].split()[person] if verb.sein else HABEN.present(person)
        return auxiliary, [verb.perfect_participle()]
    if this.tense == "future":
        return german.WERDEN[0].split()[person], [verb.prefix + verb.infinitive]
    if this.tense == "passive":
        return german.WERDEN[this.past].split()[person], [verb.perfect_participle()]
    if this.tense in MODALS:
        return german.modal(this.tense, this.past, person), [verb.prefix + verb.infinitive]
    if this.tense == "past":
        return verb.preterite(person), closing
    return verb.present(person), closing


HABEN = german.verb("haben hat hatte gehabt")


def middle(this: Clause, time_in_front: bool = False) -> list[str]:
    """The German middle field without the subject."""
    when = [this.time.de] if this.time and not time_in_front else []
    no = {"nicht": ["nicht"]}.get(this.negated, [])
    if this.tense == "result":
        no = ["noch", "nicht"] if this.negated else ["schon"]
    gladly = ["gern"] if this.gladly else []
    return [*this.pronouns, *when, *gladly, *this.objects, *no, *this.rest]


def english_verb(this: Clause) -> tuple[str, str, str, str]:
    """The auxiliary and the rest; without an auxiliary, the form of do and the rest after it, for questions and not."""
    verb, person = this.action.en, this.speaker.person
    copula = verb.base == "be"
    do = "did" if this.past or this.tense in ("past", "perfect") else "does" if person == 2 else "do"
    if this.gladly:
        return "", f"{'likes' if person == 2 else 'like'} to {verb.plain()}", do, f"like to {verb.plain()}"
    if this.tense in MODALS:
        return _english_modal(this, do)
    if this.tense == "passive":
        return english.be(this.past, person), verb.perfect(), "", ""
    if this.tense in ("future", "tomorrow"):
        return "will", verb.plain(), "", ""
    if this.tense == "progressive":
        return english.be(False, person), verb.progressive(), "", ""
    if this.tense in ("result", "since"):
        return "has" if person == 2 else "have", verb.perfect(), "", ""
    if copula:
        return english.be(this.tense != "present", person), "", "", ""
    return "", verb.preterite() if do == "did" else verb.present(person), do, verb.plain()


def _english_modal(this: Clause, do: str) -> tuple[str, str, str, str]:
    plain, person = this.action.en.plain(), this.speaker.person
    was = english.be(True, person)
    if this.tense == "müssen" and (this.past or this.negated):
        return "", f"had to {plain}" if this.past else f"have to {plain}", do, f"have to {plain}"
    if this.tense == "wollen":
        wants = "wanted" if this.past else "wants" if person == 2 else "want"
        return "", f"{wants} to {plain}", do, f"want to {plain}"
    if this.past:
        longer = {"sollen": f"supposed to {plain}", "dürfen": f"allowed to {plain}"}
        return ("could", plain, "", "") if this.tense == "können" else (was, longer[this.tense], "", "")
    short = {"können": "can", "müssen": "must", "sollen": "should", "dürfen": "must" if this.negated else "may"}
    return ("would", f"like to {plain}", "", "") if this.tense == "möchten" else (short[this.tense], plain, "", "")


def predicate(this: Clause, main: str) -> list[str]:
    """An English verb with its objects and the rest; some particles wait for the object: find it again."""
    particle = this.action.en.particle
    waits = particle in verbs.PARTICLES.split()
    waits = waits or (particle in verbs.PRONOUN_PARTICLES.split() and bool(this.accusative and this.accusative.pronoun))
    if not (waits and this.en_objects):
        return [main, *this.en_objects, *this.en_rest]
    first, *others = this.en_objects
    return [main.removesuffix(f" {particle}"), first, particle, *others, *this.en_rest]


def english_core(this: Clause, question: bool) -> tuple[str, list[str]]:
    """The auxiliary, and all that follows it (and the subject, in a question) but the time."""
    auxiliary, main, do, plain = english_verb(this)
    often = [this.time.en] if this.time and this.time.inner else []
    result = this.tense == "result"
    if result and not this.negated:
        often = ["already"]
    if not auxiliary and (this.negated or question):
        auxiliary, main = do, plain
    no = ["not"] if this.negated else []
    yet = ["yet"] if result and this.negated else []
    return auxiliary, [*no, *often, *predicate(this, main), *yet]


def english_statement(this: Clause, time_in_front: bool = False) -> str:
    """Subject, verb, objects, the rest, time."""
    auxiliary, rest = english_core(this, question=False)
    if auxiliary == "can" and rest[0] == "not":
        auxiliary, rest = "cannot", rest[1:]
    when = [this.time.en] if this.time and not this.time.inner else []
    if time_in_front:
        return _text([*when, this.speaker.en, auxiliary, *rest])
    return _text([this.speaker.en, auxiliary, *rest, *when])


def english_question(this: Clause, asking: str = "") -> str:
    """Auxiliary or do before the subject."""
    auxiliary, rest = english_core(this, question=True)
    when = [this.time.en] if this.time and not this.time.inner else []
    return _text([asking, auxiliary, this.speaker.en, *rest, *when])


def german_statement(this: Clause, time_in_front: bool = False) -> str:
    """Verb second."""
    finite, closing = german_verb(this)
    actor = this.actor.de[NOMINATIVE]
    if time_in_front and this.time:
        return _text([this.time.de, finite, actor, *middle(this, True), *closing])
    return _text([actor, finite, *middle(this), *closing])


def german_inverted(this: Clause, asking: str = "") -> str:
    """Verb first, as in questions and after a clause in front."""
    finite, closing = german_verb(this)
    actor, rest = this.actor.de[NOMINATIVE], middle(this)
    return _text([asking, finite, actor, *rest, *closing])


def german_final(this: Clause, relative: str = "") -> str:
    """Verb last, as in subordinate clauses; a relative pronoun takes the place of the subject."""
    finite, closing = german_verb(this)
    if closing == [this.action.de.prefix]:
        finite, closing = closing[0] + finite, []
    return _text([relative or this.actor.de[NOMINATIVE], *middle(this), *closing, finite])


def german_infinitive(this: Clause) -> str:
    """Without subject, with zu."""
    return _text([*middle(this), this.action.de.to_infinitive()])


def english_infinitive(this: Clause) -> str:
    """Without subject, with to."""
    no = "not" if this.negated else ""
    return _text([no, "to", *predicate(this, this.action.en.plain())])


def _text(parts: list[str]) -> str:
    return " ".join(part for part in parts if part)
