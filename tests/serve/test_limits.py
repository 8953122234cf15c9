"""Limits: what is above one is refused in a sentence, and costs the others nothing."""

import asyncio
import threading

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from serving import line, post, serving
from sooner.serve.answers import Refusal
from sooner.serve.gather import Gatherer, GatherStages
from sooner.serve.limits import ServiceLimits


def test_a_large_body_a_long_line_and_many_lines_are_refused(clf):
    with serving(clf, limits=ServiceLimits(body=20_000, line=200)) as running:
        large = post(running.client, b" " * 20_001)
        assert (large.status_code, large.json()["detail"]) == (
            413,
            "The body is larger than 20,000 bytes, the limit of this service. Send it in parts.",
        )

        def chunks():
            for _ in range(30):
                yield b" " * 1000

        assert post(running.client, chunks()).status_code == 413
        long = line("a" * 300, [1, 2])
        assert post(running.client, long).status_code == 413
        mixed = post(running.client, f"{long}\n{line('short', [1, 2])}")
        assert (mixed["accepted"], mixed["rejected"]) == (
            1,
            [{"line": 1, "reason": "A line must have at most 200 bytes."}],
        )


def test_a_body_of_very_many_lines_is_refused(service):
    assert post(service.client, b"\n" * 100_001).status_code == 413


def test_open_series_are_limited_and_the_others_go_on(clf):
    with serving(clf, limits=ServiceLimits(open_series=3)) as running:
        body = "\n".join(line(name, [1, 2]) for name in "abcde")
        answer = post(running.client, body)
        assert answer["accepted"] == 3
        assert [each["line"] for each in answer["rejected"]] == [4, 5]
        assert answer["rejected"][0]["reason"] == "3 series are open, the limit of this service."
        refused = post(running.client, line("f", [1, 2]))
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        assert post(running.client, body)["accepted"] == 3
        running.client.post("/v1/series/a/finish")
        assert post(running.client, line("f", [1, 2]))["accepted"] == 1


def test_new_series_are_limited_by_rate(clf):
    with serving(clf, limits=ServiceLimits(new_series=0.5)) as running:
        answer = post(running.client, "\n".join(line(f"s{index}", [1, 2]) for index in range(10)))
        assert answer["accepted"] == 5
        assert "New series come faster than 0.5 a second" in answer["rejected"][0]["reason"]
        slow = post(running.client, "\n".join([line("s0", [1, 2]), "{", line("s9", [1, 2])]))
        assert (slow["accepted"], len(slow["rejected"])) == (1, 2)


def test_a_full_queue_refuses_with_a_time_to_retry(clf):
    with serving(clf, limits=ServiceLimits(waiting=100)) as running:
        gate, entered = threading.Event(), threading.Event()
        take = running.service.live.take

        def held(arrivals, now):
            entered.set()
            gate.wait(10)
            return take(arrivals, now)

        running.service.live.take = held
        first = threading.Thread(target=post, args=(running.client, line("a", [1, 2])))
        first.start()
        entered.wait(10)
        others = [threading.Thread(target=post, args=(running.client, line("b" * 120, [1, 2])))]
        others[0].start()
        while running.service.gatherer.waiting < 100:
            pass
        refused = post(running.client, line("c", [1, 2]))
        gate.set()
        for thread in (first, *others):
            thread.join()
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert running.client.get("/v1/stats").json()["observations"] == 2


@pytest.mark.parametrize("stage", [0, 1])
def test_a_gathering_that_fails_costs_no_later_one(stage):
    async def same(bodies):
        return bodies

    async def poisoned(bodies):
        if b"poison" in bodies:
            raise RuntimeError("poison")
        return bodies

    async def main():
        async def idle():
            pass

        stages = [same, same]
        stages[stage] = poisoned
        gatherer = Gatherer(GatherStages(*stages), idle, lambda: 1.0, window=0.001, waiting=1000)
        running = asyncio.create_task(gatherer.run())
        with pytest.raises(Refusal) as caught:
            await gatherer.submit(b"poison")
        assert caught.value.status == 500
        assert await asyncio.gather(*(gatherer.submit(b"%d" % i) for i in range(5))) == [b"%d" % i for i in range(5)]
        gatherer.close()
        await running
        with pytest.raises(Refusal) as caught:
            await gatherer.submit(b"x")
        assert caught.value.status == 503

    asyncio.run(main())


def test_event_streams_and_websockets_are_limited(clf):
    with serving(clf, limits=ServiceLimits(connections=2)) as running:
        accept = {"accept": "text/event-stream"}
        with (
            running.client.stream("GET", "/v1/decisions", headers=accept) as first,
            connect(running.url.replace("http", "ws") + "/v1/observations"),
        ):
            texts = first.iter_lines()
            assert next(texts) == ": sooner"
            refused = running.client.get("/v1/decisions", headers=accept)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
            with pytest.raises(InvalidStatus):
                connect(running.url.replace("http", "ws") + "/v1/observations")
            assert running.client.get("/v1/decisions").status_code == 200
