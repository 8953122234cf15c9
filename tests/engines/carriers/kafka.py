"""Kafka: the table as records of a topic, decided by two members of a group."""

import importlib.util

from engines.on_kafka import broker, by_series, decisions, member, records_of, send, wait_for

MISSING = None if importlib.util.find_spec("confluent_kafka") else "confluent-kafka is not installed."


def decide(model_file, table, folder):
    records = list(records_of(table))
    with broker() as address:
        send(address, records)
        members = [member(address, model_file, folder) for _ in range(2)]
        try:
            wait_for(lambda: len(decisions(address)) == len({key for key, _ in records}))
        finally:
            for each in members:
                each.terminate()
            said = [each.communicate(timeout=30)[1] for each in members]
        assert [each.returncode for each in members] == [0, 0], said
        return by_series(decisions(address))
