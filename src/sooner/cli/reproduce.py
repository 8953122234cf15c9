"""`sooner reproduce`."""

import json
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import Progress, TaskID

from sooner.cli.engines import Address, Engine, Workers, cluster
from sooner.cli.options import AsJson, Quiet
from sooner.cli.screen import Screen
from sooner.errors import InvalidArgument

if TYPE_CHECKING:
    from sooner.experiment import Plan, Result, Work
    from sooner.experiment.run import Stages


class _Told:
    """Tells the terminal which stage is done, how far it is, and how long all of them still take."""

    def __init__(self, screen: Screen, progress: Progress) -> None:
        self._screen, self._progress = screen, progress
        self._bar: TaskID | None = None

    def stage(self, label: str, place: int, total: int, seconds_left: float | None) -> None:
        self.close()
        left = "" if seconds_left is None else f", about {_duration(seconds_left)} left"
        self._screen.news(f"[bold]{place} of {total}[/] {escape(label)}{left}")

    def step(self, done: int, total: int) -> None:
        if self._bar is None:
            self._progress.start()
            self._bar = self._progress.add_task("", total=total)
        self._progress.update(self._bar, completed=done)

    def close(self) -> None:
        if self._bar is not None:
            self._progress.remove_task(self._bar)
            self._progress.stop()
            self._bar = None


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A published table or figure by name, or a TOML file; without one, those there are."
        ),
    ] = "",
    profile: Annotated[str, typer.Option(help="`cpu`, or `paper` for the published settings on a GPU.")] = "cpu",
    seeds: Annotated[int | None, typer.Option(min=1, help="Trials of each model; by default as the plan says.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="A model to run now; repeat it for several.")] = None,
    tune: Annotated[int, typer.Option(min=0, help="Trials of tuning before the trainings; 0 for none.")] = 0,
    work: Annotated[Path, typer.Option(help="Folder of the stages; they are kept and shared.")] = Path("runs"),
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the record, the page and the figures.")] = Path(
        "results"
    ),
    features: Annotated[
        Path | None, typer.Option(help="Features of videos, as `sooner data features` keeps them.")
    ] = None,
    splits: Annotated[Path | None, typer.Option(help="Folder of the official split files of videos.")] = None,
    engine: Engine = None,
    workers: Workers = None,
    address: Address = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Carry out an experiment of the paper, and lay its curves over the published ones.

    Every stage (encoder, features, trainings, scores) is kept in the work folder. **Ctrl-C at any time**: the same command goes
    on from there and ends with the same numbers. A second terminal with the same command shares the work. At the end stand
    NAME.json, the record, and the folder NAME with the page and the figures.

    With `--engine ray` workers share the stages, by default one on each core of the cluster. Its machines must share the disk
    of the work folder.

    Example: `sooner reproduce sat_nmnist_h --profile cpu --seeds 3`
    """
    from sooner.experiment import Work, find_plan, names, read_plan, run, run_together
    from sooner.experiment.sets import Videos

    screen = Screen(as_json=as_json, quiet=quiet)
    if not name:
        rows = [(each, read_plan(find_plan(each), "paper").title) for each in names()]
        screen.table("Experiments", ["name", "what it is"], rows, texts=2)
        screen.answer({"experiments": names()})
        return
    plan = read_plan(find_plan(name), profile)
    if (features is None) != (splits is None):
        raise InvalidArgument("features", "given together with --splits", "one of them", "Name both folders.")
    videos = None if features is None or splits is None else Videos(features.resolve(), splits.resolve())
    told = _Told(screen, screen.bar())
    carried = Work(
        work,
        plan.seeds if seeds is None else seeds,
        trials=tune,
        only=tuple(only or ()),
        videos=videos,
        verbose=not (quiet or as_json),
        observer=told,
    )
    screen.news(f"[bold]{escape(plan.title)}[/], profile {escape(profile)}. {escape(plan.about)}")
    try:
        with cluster(engine or _engine_of(plan), workers, address):
            stages = run_together(plan, carried, workers) if engine == "ray" else run(plan, carried)
        _write(plan, carried, stages, name, out, screen)
    except KeyboardInterrupt:
        screen.news(f"[bold]Stopped.[/] What is done is in {escape(str(work))}; the same command goes on from there.")
        sys.exit(130)
    finally:
        told.close()


def _write(plan: "Plan", work: "Work", stages: "Stages", name: str, out: Path, screen: Screen) -> None:
    """Write and print what came out."""
    from sooner.experiment import result_of
    from sooner.experiment.pages import write_pages

    result = result_of(plan, stages, work.folder)
    pages = write_pages(out / plan.name, result, stages, work.folder)
    command = _command(name, plan.profile, work.seeds, work.trials, _only(plan, result))
    record = result.to_dict(command, datetime.now(UTC).date().isoformat()) | {"statistics": pages.statistics}
    path = out / f"{plan.name}.json"
    path.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    for table in pages.tables:
        screen.table(table.title, table.columns, table.rows)
    screen.result(f"Record: [bold]{escape(str(path))}[/]")
    screen.result(f"Page: [bold]{escape(str(pages.page))}[/]")
    screen.answer({"record": str(path), "page": str(pages.page), "headline": record["headline"]})


def _engine_of(plan: "Plan") -> str:
    """Where its trainings run if nobody shares its stages: a plan whose trainings ask for workers has a cluster too."""
    return "ray" if any(each.settings.training.engine == "ray" for each in plan.contenders) else "local"


def _only(plan: "Plan", result: "Result") -> list[str]:
    """The models that the record holds, where it does not hold all of the plan: also those that earlier commands ran."""
    return [] if len(result.outcomes) == len(plan.contenders) else list(result.outcomes)


def _command(name: str, profile: str, seeds: int, trials: int, only: list[str]) -> str:
    """What to type to get the same record; folders are one's own.

    >>> _command("sat_nmnist_h", "cpu", 3, 0, ["newest frame"])
    "sooner reproduce sat_nmnist_h --profile cpu --seeds 3 --only 'newest frame'"
    """
    chosen = [word for model in only for word in ("--only", model)]
    tuning = ["--tune", str(trials)] if trials else []
    return shlex.join(["sooner", "reproduce", name, "--profile", profile, "--seeds", str(seeds), *chosen, *tuning])


def _duration(seconds: float) -> str:
    """As a person says it.

    >>> _duration(40), _duration(600), _duration(9000)
    ('1 min', '10 min', '2 h 30 min')
    """
    minutes = max(1, round(seconds / 60))
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
