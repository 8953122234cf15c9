"""`sooner stream --engine kafka`: its options, and the way to the engine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from sooner.cli.on_engine import StreamJob
from sooner.errors import InvalidArgument
from sooner.estimator.columns import fields_for
from sooner.extras import refuse_missing

_KAFKA = "On Kafka"


@dataclass(frozen=True)
class KafkaOptions:
    """Topics and group."""

    brokers: Annotated[
        str | None, Option(help="Addresses host:port of brokers, separated by commas.", rich_help_panel=_KAFKA)
    ] = None
    topic: Annotated[
        str | None,
        Option(
            help="Topic of the observations: the key is the series ID, the value a JSON line.", rich_help_panel=_KAFKA
        ),
    ] = None
    to: Annotated[str | None, Option(help="Topic of the decisions.", rich_help_panel=_KAFKA)] = None
    group: Annotated[
        str | None,
        Option(help="Consumer group. Processes of a group share the partitions of the topic.", rich_help_panel=_KAFKA),
    ] = None
    dead_letters: Annotated[
        str | None, Option(help="Topic of refused records. Default: TOPIC.refused.", rich_help_panel=_KAFKA)
    ] = None
    commit_every: Annotated[
        str, Option(help="Time between commits, after which decisions can be read.", rich_help_panel=_KAFKA)
    ] = "200ms"
    delivery: Annotated[
        Literal["exactly-once", "at-least-once"],
        Option(help="`exactly-once` needs a broker with transactions.", rich_help_panel=_KAFKA),
    ] = "exactly-once"
    kafka_config: Annotated[
        Path | None,
        Option(
            help="File of further properties of librdkafka (TLS, passwords), one name=value in a line.",
            rich_help_panel=_KAFKA,
        ),
    ] = None


def stream_on_kafka(job: StreamJob, options: KafkaOptions) -> None:
    """Decide the observations of a topic, until SIGTERM or Ctrl-C."""
    refuse_missing("kafka", "engine", "one that is installed")
    if job.layout != "jsonl":
        raise InvalidArgument("format", "jsonl with --engine kafka", job.layout, "A record is a JSON object.")
    from sooner.engines.kafka.follow import follow
    from sooner.engines.kafka.settings import KafkaSettings, read_properties
    from sooner.stream.settings import seconds_of

    brokers, topic, to, group = (_given(options, name) for name in ("brokers", "topic", "to", "group"))
    kafka = KafkaSettings(
        brokers,
        topic,
        to,
        group,
        dead_letters=options.dead_letters or "",
        delivery=options.delivery,
        commit_seconds=seconds_of(options.commit_every, name="commit_every"),
        properties={} if options.kafka_config is None else read_properties(options.kafka_config),
    )
    fields = fields_for(job.classifier, job.names.columns(), end=job.names.end)
    with job.stopping() as stopped:
        worker = follow(job.classifier, job.ends.settings(), fields, kafka, tell=job.tell, stopped=stopped.is_set)
    job.tell(f"Stopped. {worker.observations:,} observations were read and {worker.decisions:,} decisions written.")
    if worker.refused:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in worker.refused.most_common())
        job.tell(
            f"{worker.refused.total():,} records were refused ({kinds}). They are in the topic {kafka.dead_letters}."
        )


def _given(options: KafkaOptions, name: str) -> str:
    value: str | None = getattr(options, name)
    if value is None:
        raise InvalidArgument(f"--{name}", "given with --engine kafka", "none", "See `sooner stream --help`.")
    return value
