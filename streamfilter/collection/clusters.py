"""Clusters of similar documents.

Near-duplication is not transitive, so there are two kinds of clusters:

- Star: in the order of arrival, a document joins the most similar earlier centre that it was
  compared with. Without one it becomes a centre.
- Component: each document that is similar to a member is a member. The two ends of such a chain
  may have nothing in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cluster:
    """A centre (the cluster's first document) and the ids of the other members."""

    centre: str
    members: list[str] = field(default_factory=list)


class Stars:
    """Star clusters: each document joins its most similar centre, or becomes one."""

    def __init__(self) -> None:
        self._stars: dict[int, Cluster] = {}  # by the ordinal of the centre

    def add(self, ordinal: int, id_: str, similar: Sequence[int]) -> None:
        """Add a document with the earlier ones that it is *similar* to, the most similar first."""
        for other in similar:
            if other in self._stars:
                self._stars[other].members.append(id_)
                return
        self._stars[ordinal] = Cluster(id_)

    def clusters(self) -> list[Cluster]:
        """Return the clusters with members."""
        return [star for _, star in sorted(self._stars.items()) if star.members]


class Components:
    """Connected components: each document that is similar to a member is a member."""

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        self._first: dict[int, int] = {}
        """Union-find: an earlier ordinal of the component; the first document maps to itself."""

    def add(self, ordinal: int, id_: str, similar: Sequence[int]) -> None:
        """Add a document with the earlier ones that it is *similar* to."""
        self._ids[ordinal] = id_
        roots = sorted({ordinal, *map(self._root, similar)})
        for each in roots:
            self._first[each] = roots[0]

    def _root(self, ordinal: int) -> int:
        while (nearer := self._first[ordinal]) != ordinal:
            self._first[ordinal] = self._first[nearer]
            ordinal = nearer
        return ordinal

    def clusters(self) -> list[Cluster]:
        """Return the components with members, in input order."""
        found: dict[int, Cluster] = {}
        for ordinal, id_ in sorted(self._ids.items()):
            root = self._root(ordinal)
            if root == ordinal:
                found[root] = Cluster(id_)
            else:
                found[root].members.append(id_)
        return [cluster for cluster in found.values() if cluster.members]


CLUSTERS: dict[str, type[Stars] | type[Components]] = {"stars": Stars, "components": Components}
"""The kinds of clusters by name; the first one is the usual one."""
