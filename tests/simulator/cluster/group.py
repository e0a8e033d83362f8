"""The group's coordinator: members, a generation, and who owns which task.

A task moves only after its owner said that it let go of it (at a poll), or was thrown out.
Every change raises the generation, and a member learns of that at its next poll: until then
its offsets are refused.
"""

import random
from dataclasses import dataclass, field

from streamfilter.engine.ports import Abortable


@dataclass(eq=False, slots=True)
class Seat:
    """One member as the coordinator knows it."""

    member_id: str
    silent_since: float | None = None
    """Since when no heartbeat came; None while its process lives."""
    told: set[int] = field(default_factory=set)
    """Tasks that it knows to be its own."""
    generation: int = -1
    """What it knows."""


class Group:
    """Who is in, and who owns what."""

    def __init__(self, rng: random.Random, tasks: int, *, eager: bool) -> None:
        self._rng, self.tasks, self.eager = rng, tasks, eager
        self.generation = 0
        self.seats: dict[str, Seat] = {}
        self.owner: dict[int, str] = {}
        self._leaving: set[int] = set()
        """Tasks whose owner is to let go of them."""
        self._joined = 0

    def join(self, name: str) -> Seat:
        self._joined += 1
        seat = Seat(f"{name}-{self._joined}")
        self.seats[seat.member_id] = seat
        self.rebalance()
        return seat

    def leave(self, member_id: str) -> None:
        if self.seats.pop(member_id, None) is not None:
            for task in [task for task, owner in self.owner.items() if owner == member_id]:
                self._release(task)
            self.rebalance()

    def _release(self, task: int) -> None:
        self.owner.pop(task, None)
        self._leaving.discard(task)

    def rebalance(self, *, move: bool = False) -> None:
        """Give ownerless tasks away; with *move*, take one from its owner for another."""
        self.generation += 1
        members = list(self.seats)
        if not members:
            return
        counts = dict.fromkeys(members, 0)
        for owner in self.owner.values():
            counts[owner] += 1
        for task in range(self.tasks):
            if task not in self.owner:
                least = min(counts.values())
                chosen = self._rng.choice([each for each in members if counts[each] == least])
                self.owner[task] = chosen
                counts[chosen] += 1
        share = -(-self.tasks // len(members))
        crowded = [t for t, owner in sorted(self.owner.items()) if counts[owner] > share]
        if move and len(members) > 1:
            crowded.append(self._rng.choice(sorted(self.owner)))
        self._leaving.update(crowded[:1])

    def serve(self, seat: Seat) -> tuple[set[int], set[int]]:
        """Serve a member's poll: return what it loses and what it gains."""
        letting_go = {t for t in seat.told & self._leaving if self.owner[t] == seat.member_id}
        for task in sorted(letting_go):
            self._release(task)
        if letting_go:
            seat.told -= letting_go
            self._give_to_others(seat, letting_go)
        owned = {task for task, owner in self.owner.items() if owner == seat.member_id}
        if self.eager and seat.generation != self.generation:
            gone, gained = letting_go | seat.told, owned
        else:
            gone, gained = letting_go | (seat.told - owned), owned - seat.told
        # A task that was to go before its owner had even heard of it may go unheard.
        seat.told, seat.generation = owned, self.generation
        return gone, gained

    def stays(self, seat: Seat) -> bool:
        """Return True if a cooperative member keeps what it has, whatever the generation."""
        present = seat.member_id in self.seats
        return present and not self.eager and seat.told.isdisjoint(self._leaving)

    def _give_to_others(self, seat: Seat, tasks: set[int]) -> None:
        others = [member for member in self.seats if member != seat.member_id]
        for task in sorted(tasks) if others else ():
            self.owner[task] = self._rng.choice(others)
        self.rebalance()

    def check(self, token: bytes) -> None:
        """Refuse offsets of who is not a member of this generation.

        As the classic coordinator does it: no generation and no member id is a consumer
        outside any group, and welcome.
        """
        generation, _, member_id = token.decode().partition(":")
        if int(generation) < 0 and not member_id:
            return
        if member_id not in self.seats:
            raise Abortable(f"UNKNOWN_MEMBER_ID {member_id}")
        if int(generation) != self.generation:
            raise Abortable(f"ILLEGAL_GENERATION {generation}, it is {self.generation}")
