"""Consumer groups: members, generations, assignments and offsets."""

import asyncio
import time
import uuid

NONE, REBALANCING, OTHER_GENERATION, UNKNOWN_MEMBER, UNSTABLE = 0, 27, 22, 25, 88
_DELAY = 0.3


class Member:
    """A member of a group, which waits for the others in `joined` and for its assignment in `synced`."""

    def __init__(self, session):
        self.session, self.seen = session, time.monotonic()
        self.protocols, self.assignment = [], b""
        self.joined = self.synced = None


class Group:
    """A group: it is rebalanced when a member comes, leaves, or is silent for its session timeout."""

    def __init__(self):
        self.members, self.generation, self.leader, self.protocol = {}, 0, "", ""
        self.offsets, self.pending = {}, {}
        self.rebalancing, self._begun = False, 0.0

    def check(self, member, generation):
        """The error of a request of a member."""
        if member not in self.members:
            return UNKNOWN_MEMBER
        return NONE if generation == self.generation else OTHER_GENERATION

    async def join(self, name, session, protocols):
        """Take part in the next generation; returns the ID of the member, or None if it was left behind."""
        name = name or f"member-{uuid.uuid4()}"
        member = self.members.setdefault(name, Member(session))
        member.seen, member.protocols, member.joined = (
            time.monotonic(),
            protocols,
            asyncio.get_running_loop().create_future(),
        )
        self.rebalance()
        self.tick()
        return name, await member.joined

    async def sync(self, name, generation, assignments):
        """The assignment of a member, as soon as the leader has made it."""
        if (error := self.check(name, generation)) != NONE:
            return error, b""
        if self.rebalancing:
            return REBALANCING, b""
        member = self.members[name]
        member.seen = time.monotonic()
        if name == self.leader:
            for other, assignment in assignments:
                if other in self.members:
                    self.members[other].assignment = assignment
            for other in self.members.values():
                if other.synced is not None and not other.synced.done():
                    other.synced.set_result(NONE)
            self.leader = ""
            return NONE, member.assignment
        if self.leader:
            member.synced = asyncio.get_running_loop().create_future()
            if (error := await member.synced) != NONE:
                return error, b""
        return NONE, member.assignment

    def heartbeat(self, name, generation):
        """The answer to a sign of life."""
        if (error := self.check(name, generation)) != NONE:
            return error
        self.members[name].seen = time.monotonic()
        return REBALANCING if self.rebalancing else NONE

    def leave(self, name):
        """Let a member go."""
        member = self.members.pop(name, None)
        if member is not None:
            if member.joined is not None and not member.joined.done():
                member.joined.set_result(None)
            self.rebalance()

    def rebalance(self):
        """Begin a new generation as soon as all members have joined."""
        if not self.rebalancing:
            self.rebalancing, self._begun = True, time.monotonic()
            for member in self.members.values():
                if member.synced is not None and not member.synced.done():
                    member.synced.set_result(REBALANCING)

    def tick(self):
        """Leave silent members out, and begin a generation that is complete."""
        now = time.monotonic()
        for name, member in list(self.members.items()):
            waits = any(future is not None and not future.done() for future in (member.joined, member.synced))
            if now - member.seen > member.session * (2 if waits else 1):
                self.leave(name)
        waiting = {name: member for name, member in self.members.items() if member.joined and not member.joined.done()}
        if self.rebalancing and len(waiting) == len(self.members) and waiting and now - self._begun >= _DELAY:
            self._begin(waiting)

    def _begin(self, members):
        self.rebalancing, self.leader = False, next(iter(members))
        self.generation += 1
        common = [name for name, _ in members[self.leader].protocols]
        self.protocol = next(name for name in common if all(name in dict(each.protocols) for each in members.values()))
        about = [(name, dict(member.protocols)[self.protocol]) for name, member in members.items()]
        for name, member in members.items():
            member.seen, member.synced, member.assignment = time.monotonic(), None, b""
            member.joined.set_result(
                (self.generation, self.protocol, self.leader, about if name == self.leader else [])
            )
