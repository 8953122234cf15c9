"""A Kafka of librdkafka's own for tests, in a process that others connect to: `python mock_kafka.py TOPIC:PARTITIONS ...`.

It prints its address, and ends with its standard input. It has consumer groups, offsets and the calls of transactions, but it
shows what was not committed, and it does not compact.
"""

import ctypes
import sys
from pathlib import Path

import confluent_kafka


def library():
    """librdkafka, as the wheel of confluent-kafka brings it, with the functions of its mock cluster."""
    (path,) = (Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka-*")
    found = ctypes.CDLL(str(path))
    found.rd_kafka_conf_new.restype = ctypes.c_void_p
    found.rd_kafka_new.restype = ctypes.c_void_p
    found.rd_kafka_new.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    found.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
    found.rd_kafka_mock_cluster_new.argtypes = [ctypes.c_void_p, ctypes.c_int]
    found.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    found.rd_kafka_mock_cluster_bootstraps.argtypes = [ctypes.c_void_p]
    found.rd_kafka_mock_topic_create.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    found.rd_kafka_mock_set_apiversion.argtypes = [ctypes.c_void_p, ctypes.c_int16, ctypes.c_int16, ctypes.c_int16]
    found.rd_kafka_mock_group_initial_rebalance_delay_ms.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    return found


def serve(topics):
    """Serve until the standard input ends."""
    kafka = library()
    cluster = kafka.rd_kafka_mock_cluster_new(
        kafka.rd_kafka_new(0, kafka.rd_kafka_conf_new(), ctypes.create_string_buffer(512), 512), 1
    )
    kafka.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 300)
    for topic in topics:
        if topic == "--without-transactions":
            kafka.rd_kafka_mock_set_apiversion(cluster, 22, -1, -1)  # InitProducerId
            continue
        name, _, partitions = topic.partition(":")
        kafka.rd_kafka_mock_topic_create(cluster, name.encode(), int(partitions), 1)
    sys.stdout.write(kafka.rd_kafka_mock_cluster_bootstraps(cluster).decode() + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1:])
