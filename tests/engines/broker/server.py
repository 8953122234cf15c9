"""The broker: `python -m engines.broker TOPIC:PARTITIONS ...` prints its address, and ends with its standard input."""

import asyncio
from collections import defaultdict

from engines.broker.groups import NONE, UNKNOWN_MEMBER, UNSTABLE, Group
from engines.broker.log import Log
from engines.broker.transactions import Transactions
from engines.broker.wire import Reader, Writer

UNKNOWN_TOPIC, OUT_OF_RANGE, OLD_VERSION, EXISTS = 3, 1, 35, 36
_MOST = 8 << 20


class Broker:
    """One broker with its topics.

    Args:
        topics: the number of partitions of each.
        transactional: whether it knows transactions.
        end_delay: seconds that a transaction stays open with all of its records, and again that its end takes.
    """

    def __init__(self, topics, *, transactional=True, end_delay=0.0):
        self.logs = {name: [Log() for _ in range(partitions)] for name, partitions in topics.items()}
        self.groups = defaultdict(Group)
        self.transactions = Transactions(lambda topic, partition: self.logs[topic][partition], self.groups)
        self.end_delay, self.port = end_delay, 0
        self._written = asyncio.Event()
        self._apis = {
            0: (0, 3, self._produce),
            1: (0, 4, self._fetch),
            2: (0, 2, self._list_offsets),
            3: (0, 1, self._metadata),
            8: (0, 2, self._commit_offsets),
            9: (0, 7, self._fetch_offsets),
            10: (0, 1, self._find_coordinator),
            11: (0, 2, self._join),
            12: (0, 0, self._heartbeat),
            13: (0, 0, self._leave),
            14: (0, 0, self._sync),
            18: (0, 0, self._versions),
            19: (0, 1, self._create_topics),
        }
        if transactional:
            self._apis |= {
                22: (0, 0, self._init_producer),
                24: (0, 0, self._add_partitions),
                25: (0, 0, self._add_offsets),
                26: (0, 0, self._end_transaction),
                28: (0, 3, self._commit_offsets_in_transaction),
            }

    async def serve(self, port=0):
        """Listen on this machine; returns the server."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", port, limit=1 << 26)
        self.port = server.sockets[0].getsockname()[1]
        self._ticking = asyncio.create_task(self._tick())
        return server

    async def _tick(self):
        while True:
            await asyncio.sleep(0.05)
            self.transactions.tick()
            for group in self.groups.values():
                group.tick()

    async def _connected(self, reader, writer):
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4))
                answer = await self._answer(await reader.readexactly(size))
                if answer is not None:
                    writer.write(len(answer).to_bytes(4) + answer)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, data):
        request = Reader(data)
        api, version, correlation = request.number("h"), request.number("h"), request.number("i")
        request.text()  # the name of the client
        _, newest, handle = self._apis[api]
        if version > newest:
            return Writer(flexible=False).number("i", correlation).data + self._versions_with(OLD_VERSION)
        flexible = (api, version) in {(9, 6), (9, 7), (28, 3)}
        request.flexible = flexible
        request.tags()
        response = Writer(flexible=flexible)
        if await handle(request, response, version) is False:
            return None
        return Writer(flexible=flexible).number("i", correlation).tags().data + response.data

    def _versions_with(self, error):
        response = Writer(flexible=False).number("h", error)
        apis = [(api, oldest, newest) for api, (oldest, newest, _) in self._apis.items()]
        return response.many(apis, lambda each: response.number("hhh", *each)).data

    async def _versions(self, request, response, version):
        del request, version
        response._pieces.append(self._versions_with(NONE))

    async def _metadata(self, request, response, version):
        asked = request.many(request.text)
        names = list(self.logs) if asked is None or (version == 0 and not asked) else asked
        response.many([0], lambda node: self._write_broker(response, node, version))
        if version:
            response.number("i", 0)
        response.many(names, lambda name: self._write_topic(response, name, version))

    def _write_broker(self, response, node, version):
        response.number("i", node).text("127.0.0.1").number("i", self.port)
        if version:
            response.text(None)

    def _write_topic(self, response, name, version):
        partitions = self.logs.get(name, [])
        response.number("h", NONE if name in self.logs else UNKNOWN_TOPIC).text(name)
        if version:
            response.number("b", 0)
        response.many(range(len(partitions)), lambda index: response.number("hiiiiii", 0, index, 0, 1, 0, 1, 0))

    async def _create_topics(self, request, response, version):
        topics = request.many(lambda: self._read_new_topic(request))
        response.many(topics, lambda topic: self._create(response, *topic, version))

    def _read_new_topic(self, request):
        name, partitions, _ = request.text(), request.number("i"), request.number("h")
        request.many(lambda: (request.number("i"), request.many(lambda: request.number("i"))))
        request.many(lambda: (request.text(), request.text()))
        return name, partitions

    def _create(self, response, name, partitions, version):
        response.text(name).number("h", EXISTS if name in self.logs else NONE)
        self.logs.setdefault(name, [Log() for _ in range(partitions)])
        if version:
            response.text(None)

    async def _produce(self, request, response, version):
        request.text()
        acks, _ = request.number("h"), request.number("i")
        topics = request.many(lambda: (request.text(), request.many(lambda: (request.number("i"), request.blob()))))

        def write(topic):
            response.text(topic[0]).many(topic[1], lambda each: self._append(response, topic[0], *each))

        response.many(topics, write).number("i", 0)
        self._written.set()
        self._written = asyncio.Event()
        return acks != 0

    def _append(self, response, topic, partition, data):
        log = self.logs[topic][partition]
        producer, epoch, transactional = log.producer_of(data)
        error = self.transactions.refuses(producer, epoch, (topic, partition), transactional=transactional)
        first = log.append(data) if error == NONE else -1
        response.number("ihqq", partition, error, first, -1)

    async def _fetch(self, request, response, version):
        request.number("i")
        wait, _, _, committed = (request.number(form) for form in "iiib")
        topics = request.many(
            lambda: (
                request.text(),
                request.many(lambda: (request.number("i"), request.number("q"), request.number("i"))),
            )
        )
        end = asyncio.get_running_loop().time() + wait / 1000
        while not self._any(topics, committed) and (left := end - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.wait_for(self._written.wait(), left)
            except TimeoutError:
                break

        def write(topic):
            response.text(topic[0]).many(topic[1], lambda each: self._read(response, topic[0], *each, committed))

        response.number("i", 0).many(topics, write)

    def _any(self, topics, committed):
        """Whether there is anything to read, or an error to report."""
        for name, partitions in topics:
            for partition, offset, _ in partitions:
                log = self.logs[name][partition]
                if offset < log.start or offset > log.end or offset < (log.stable if committed else log.end):
                    return True
        return False

    def _read(self, response, topic, partition, offset, most, committed):
        log = self.logs[topic][partition]
        limit = log.stable if committed else log.end
        error = NONE if log.start <= offset <= log.end else OUT_OF_RANGE
        data = log.read(offset, limit, min(most, _MOST)) if error == NONE else b""
        response.number("ihqq", partition, error, log.end, log.stable)
        aborted = [each[:2] for each in log.aborted if committed and each[1] < limit and each[2] >= offset]
        response.many(aborted, lambda each: response.number("qq", *each))
        response.blob(data)

    async def _list_offsets(self, request, response, version):
        request.number("i")
        committed = request.number("b") if version == 2 else 0
        topics = request.many(
            lambda: (request.text(), request.many(lambda: (request.number("i"), request.number("q"))))
        )
        if version == 2:
            response.number("i", 0)

        def write_one(topic, partition, when):
            log = self.logs[topic][partition]
            offset = log.start if when == -2 else log.stable if committed else log.end
            response.number("ihqq", partition, NONE, -1, offset)

        def write(topic):
            response.text(topic[0]).many(topic[1], lambda each: write_one(topic[0], *each))

        response.many(topics, write)

    async def _find_coordinator(self, request, response, version):
        request.text()
        if version:
            response.number("ih", 0, NONE).text(None)
        else:
            response.number("h", NONE)
        response.number("i", 0).text("127.0.0.1").number("i", self.port)

    async def _join(self, request, response, version):
        group, session = self.groups[request.text()], request.number("i") / 1000
        if version:
            request.number("i")
        member = request.text()
        request.text()
        protocols = request.many(lambda: (request.text(), request.blob()))
        name, joined = await group.join(member, session, protocols)
        generation, protocol, leader, members = joined or (-1, "", "", [])
        if version == 2:
            response.number("i", 0)
        response.number("hi", NONE if joined else UNKNOWN_MEMBER, generation).text(protocol).text(leader).text(name)
        response.many(members, lambda each: response.text(each[0]).blob(each[1]))

    async def _sync(self, request, response, version):
        group, generation, member = self.groups[request.text()], request.number("i"), request.text()
        error, assignment = await group.sync(member, generation, request.many(lambda: (request.text(), request.blob())))
        response.number("h", error).blob(assignment)

    async def _heartbeat(self, request, response, version):
        group, generation, member = self.groups[request.text()], request.number("i"), request.text()
        response.number("h", group.heartbeat(member, generation))

    async def _leave(self, request, response, version):
        self.groups[request.text()].leave(request.text())
        response.number("h", NONE)

    async def _commit_offsets(self, request, response, version):
        group, generation, member = self.groups[request.text()], request.number("i"), request.text()
        request.number("q")
        error = NONE if generation < 0 else group.check(member, generation)
        topics = request.many(lambda: (request.text(), request.many(lambda: self._read_offset(request))))
        self._answer_offsets(response, topics, error)
        if error == NONE:
            group.offsets |= {(name, index): offset for name, offsets in topics for index, offset in offsets}

    def _read_offset(self, request):
        index, offset = request.number("i"), request.number("q")
        if request.flexible:
            request.number("i")
        request.text()
        request.tags()
        return index, offset

    def _answer_offsets(self, response, topics, error):
        def write(topic):
            response.text(topic[0])
            response.many(topic[1], lambda each: response.number("ih", each[0], error).tags()).tags()

        response.many(topics, write).tags()

    async def _fetch_offsets(self, request, response, version):
        group = self.groups[request.text()]

        def read():
            topic = request.text(), request.many(lambda: request.number("i"))
            request.tags()
            return topic

        topics = request.many(read)
        stable = version == 7 and bool(request.number("b"))
        pending = {each for offsets in group.pending.values() for each in offsets} if stable else set()
        if version >= 3:
            response.number("i", 0)

        def write_one(topic, index):
            response.number("iq", index, group.offsets.get((topic, index), -1))
            if version >= 5:
                response.number("i", -1)
            response.text("").number("h", UNSTABLE if (topic, index) in pending else NONE).tags()

        def write(topic):
            response.text(topic[0]).many(topic[1], lambda index: write_one(topic[0], index)).tags()

        response.many(topics, write)
        if version >= 2:
            response.number("h", NONE)
        response.tags()

    async def _init_producer(self, request, response, version):
        producer, epoch = self.transactions.begin_producer(request.text(), request.number("i"))
        response.number("ihqh", 0, NONE, producer, epoch)

    async def _add_partitions(self, request, response, version):
        name, producer, epoch = request.text(), request.number("q"), request.number("h")
        topics = request.many(lambda: (request.text(), request.many(lambda: request.number("i"))))
        error = self.transactions.check(name, producer, epoch)
        if error == NONE:
            self.transactions.add(name, partitions=[(topic, index) for topic, some in topics for index in some])

        def write(topic):
            response.text(topic[0]).many(topic[1], lambda index: response.number("ih", index, error))

        response.number("i", 0).many(topics, write)

    async def _add_offsets(self, request, response, version):
        await asyncio.sleep(self.end_delay)  # what was written is open for so long
        name, producer, epoch, group = request.text(), request.number("q"), request.number("h"), request.text()
        error = self.transactions.check(name, producer, epoch)
        if error == NONE:
            self.transactions.add(name, group=group)
        response.number("ih", 0, error)

    async def _commit_offsets_in_transaction(self, request, response, version):
        name, group_name = request.text(), request.text()
        producer, epoch, group = request.number("q"), request.number("h"), self.groups[group_name]
        generation, member = (request.number("i"), request.text()) if version == 3 else (-1, "")
        if version == 3:
            request.text()
        error = self.transactions.check(name, producer, epoch)
        if error == NONE and generation >= 0:
            error = group.check(member, generation)

        def read():
            topic = request.text(), request.many(lambda: self._read_offset(request))
            request.tags()
            return topic

        topics = request.many(read)
        if error == NONE:
            found = {(topic, index): offset for topic, offsets in topics for index, offset in offsets}
            group.pending.setdefault(producer, {}).update(found)
        response.number("i", 0)
        self._answer_offsets(response, topics, error)

    async def _end_transaction(self, request, response, version):
        name, producer, epoch, committed = request.text(), request.number("q"), request.number("h"), request.number("b")
        await asyncio.sleep(self.end_delay)
        error = self.transactions.check(name, producer, epoch)
        if error == NONE:
            self.transactions.end(name, committed=bool(committed))
            self._written.set()
            self._written = asyncio.Event()
        response.number("ih", 0, error)
