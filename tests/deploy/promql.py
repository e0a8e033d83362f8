"""What a PromQL expression asks for: its selectors, by the parser and not by a pattern."""

from dataclasses import dataclass

import promql_parser


@dataclass(frozen=True, slots=True)
class Selector:
    name: str
    labels: frozenset[str]
    """The labels it looks at."""
    text: str
    """The selector alone, as an expression."""


def selectors(expression: str) -> list[Selector]:
    """Return every selector of *expression*; a ValueError tells what does not parse."""
    found: list[Selector] = []

    def visit(node: object) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            labels = frozenset(matcher.name for matcher in node.matchers.matchers)
            found.append(Selector(node.name or "", labels, node.prettify()))
        return True

    promql_parser.walk(promql_parser.parse(expression), visit)
    return found
