"""Describes a `Proposal`: where text and id seem to be, and which settings to change for it."""

from shlex import quote

from streamfilter.config.configuration import Config
from streamfilter.config.loading import literal
from streamfilter.documents.proposal import Proposal
from streamfilter.process.terminal_escapes import inline
from streamfilter.stops import counted

GUESSED = "/text and /id are guesses"


def described(topic: str, found: Proposal) -> str:
    """Return a description of the *topic*'s records, as a help to choose the settings."""
    if not found.records:
        return f"{topic} holds no records: {GUESSED}"
    seen = f"the latest {counted(found.records, 'record')} of {topic}"
    if found.format == "avro":
        return (
            f"{seen}: each value begins with the id of a registry's schema. Set input.format to "
            f"avro or protobuf, whichever they are (config/README.md); {GUESSED}"
        )
    if not found.sure:
        return f"{seen}: most are no JSON objects with a text; {GUESSED}"
    if found.format == "text":
        return f"{seen}: plain text"
    text = f"{seen}: text at {inline(found.text or '')} ({_words(found)})"
    if found.id:
        return f"{text}, id at {inline(found.id)}"
    if not found.distinct:
        return f"{text}, no id in all of them"
    names = ", ".join(map(inline, found.distinct))
    return (
        f"{text}, and no field in all of them is named like an id. Different in each record: "
        f"{names} (to take it: --id {quote(inline(found.distinct[0]))})"
    )


def _words(found: Proposal) -> str:
    others = f"; also {', '.join(map(inline, found.others))}" if found.others else ""
    return f"{counted(found.words, 'word')} at the median{others}"


def advice(config: Config, proposal: Proposal | None) -> list[str]:
    """Return what to set instead, if the records look otherwise than the configuration says."""
    if proposal is None:
        return []
    given = config.input
    if proposal.format == "avro" and not proposal.sure:
        if given.has_schema or given.format == "json_schema":
            return []
        which = "avro, protobuf or json_schema"
        return [f"they begin with the id of a registry's schema: set input.format to {which}"]
    if proposal.format != given.format:
        return [f"they look like {proposal.format}: --set input.format={proposal.format}"]
    if proposal.text is None or proposal.text in given.text:
        return []
    setting = _setting("input.text", proposal.text)
    found = [f"most words are at {inline(proposal.text)} ({_words(proposal)}): {setting}"]
    if proposal.id is not None and given.id == "/id" != proposal.id:
        setting = _setting("input.id", proposal.id)
        found.append(f"a different id is at {inline(proposal.id)}: {setting}")
    return found


def _setting(key: str, value: str) -> str:
    """Return the option that sets *key* to just *value*, as a shell takes it."""
    return f"--set {quote(inline(f'{key}={literal(value)}'))}"
