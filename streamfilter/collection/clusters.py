"""Clusters of similar documents.

Near-duplication is not transitive, so there are two kinds of clusters:

- Star: in the order of arrival, a document joins the most similar earlier centre that it was
  compared with. Without one it becomes a centre.
- Component: each document that is similar to a member is a member. The two ends of such a chain
  may have nothing in common.
"""

from collections.abc import Sequence

from msgspec import Struct, field

from streamfilter.collection.collection import Likeness


class Cluster(Struct, frozen=True):
    """A centre (the cluster's first document) and the ids of the other members, at least one."""

    centre: str
    members: list[str] = field(default_factory=list)


class Stars:
    """Star clusters: each document joins its most similar centre, or becomes one."""

    def __init__(self) -> None:
        self._stars: dict[int, Cluster] = {}  # by the ordinal of the centre
        self._members: set[int] = set()  # every other document is a centre

    def add(self, similar: Sequence[Likeness]) -> None:
        """Add a document by its likenesses to earlier ones, the most similar first."""
        for each in similar:
            if each.other_ordinal not in self._members:
                star = self._stars.setdefault(each.other_ordinal, Cluster(each.other_id))
                star.members.append(each.id)
                self._members.add(each.ordinal)
                return

    def clusters(self) -> list[Cluster]:
        """Return the clusters, in the order of their centres."""
        return [star for _, star in sorted(self._stars.items())]


class Components:
    """Connected components: each document that is similar to a member is a member."""

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}
        self._first: dict[int, int] = {}
        """Union-find: an earlier ordinal of the component; the first document maps to itself."""

    def add(self, similar: Sequence[Likeness]) -> None:
        """Add a document by its likenesses to earlier ones."""
        for each in similar:
            for ordinal, id_ in ((each.other_ordinal, each.other_id), (each.ordinal, each.id)):
                self._ids.setdefault(ordinal, id_)
                self._first.setdefault(ordinal, ordinal)
            first, second = sorted((self._root(each.other_ordinal), self._root(each.ordinal)))
            self._first[second] = first

    def _root(self, ordinal: int) -> int:
        while (nearer := self._first[ordinal]) != ordinal:
            self._first[ordinal] = self._first[nearer]
            ordinal = nearer
        return ordinal

    def clusters(self) -> list[Cluster]:
        """Return the components, in the order of their first documents."""
        found: dict[int, Cluster] = {}
        for ordinal, id_ in sorted(self._ids.items()):
            root = self._root(ordinal)
            if root == ordinal:
                found[root] = Cluster(id_)
            else:
                found[root].members.append(id_)
        return list(found.values())


CLUSTERS: dict[str, type[Stars] | type[Components]] = {"stars": Stars, "components": Components}
"""The kinds of clusters by name; the first one is the usual one."""
