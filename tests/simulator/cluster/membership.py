"""The ports `Membership` and `Clock` of one process."""

from streamfilter.engine.ports import Member, Moves, Retriable
from tests.simulator.cluster.group import Seat
from tests.simulator.world import Life, World


class SimClock:
    """`ports.Clock`: simulated seconds; the wall clock may be put wrong at any time."""

    def __init__(self, world: World, life: Life) -> None:
        self._world, self._life = world, life

    def monotonic(self) -> float:
        return self._world.now

    def wall_milliseconds(self) -> int:
        return int((self._world.now + self._world.wall_offset) * 1000)

    def sleep(self, seconds: float) -> None:
        self._world.port(self._life, "clock.sleep")
        self._world.advance(seconds)


class SimMembership:
    """`ports.Membership`: what a client of the group knows, which may be old."""

    def __init__(self, world: World, life: Life, group: str = "") -> None:
        self._world, self._life, self._group = world, life, world.groups[group]
        self._seat: Seat | None = None

    def poll(self, timeout: float) -> Moves:
        world = self._world
        world.port(self._life, "membership.poll")
        if world.chance("unavailable"):
            world.advance(timeout)
            raise Retriable("the coordinator is away")
        gone, gained, lost = set[int](), set[int](), False
        if self._seat is not None and self._seat.member_id not in self._group.seats:
            gone, lost, self._seat = set(self._seat.told), True, None
            world.tell(self._life.name, f"learns that it lost its place, with tasks {sorted(gone)}")
            if world.rng.random() < 0.5:
                return Moves(gone=frozenset(gone), lost=True)
        if self._seat is None:
            self._seat = self._group.join(self._life.name)
        less, more = self._group.serve(self._seat)
        gone |= less
        gained |= more
        if gone or gained:
            world.tell(self._life.name, f"tasks: -{sorted(gone)} +{sorted(gained)}")
        else:
            world.advance(timeout)
        return Moves(frozenset(gained), frozenset(gone), lost)

    def member(self) -> Member:
        """What the client knows: after it was thrown out, it still believes in its place."""
        seat = self._seat
        if seat is None:
            return Member(-1, "", b"-1:")
        group = self._group
        owned = {task for task, owner in group.owner.items() if owner == seat.member_id}
        if group.stays(seat) and seat.told == owned and self._world.rng.random() < 0.5:
            seat.generation = group.generation  # rejoined in the background: nothing moved
        token = f"{seat.generation}:{seat.member_id}".encode()
        return Member(seat.generation, seat.member_id, token)

    def close(self) -> None:
        self._world.port(self._life, "membership.close")
        if self._seat is not None:
            self._group.leave(self._seat.member_id)
        self._seat = None
