"""`sooner reproduce`."""

import json
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape
from rich.progress import TaskID
from typer import Argument, Option

from sooner.cli.options import ClusterOptions
from sooner.cli.screen import Screen
from sooner.errors import InvalidArgument
from sooner.storage import write_whole

if TYPE_CHECKING:
    from sooner.lab.experiments import Plan, Work
    from sooner.lab.experiments.run import Stages


class _ProgressPrinter:
    """Prints which stage is done, its progress, and the remaining time of all stages."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._progress = screen, screen.progress()
        self._bar: TaskID | None = None

    def stage(self, label: str, index: int, total: int, seconds_left: float | None) -> None:
        self.close()
        left = "" if seconds_left is None else f", about {_duration(seconds_left)} left"
        self._screen.message(f"[bold]{index} of {total}[/] {escape(label)}{left}")

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
        Argument(metavar="NAME", help="Name of an experiment, or a TOML file. Without it, the experiments are listed."),
    ] = "",
    profile: Annotated[str, Option(help="`cpu`, or `paper` for the published settings on a GPU.")] = "cpu",
    seeds: Annotated[int | None, Option(min=1, help="Trials per model. Default: as in the plan.")] = None,
    only: Annotated[list[str] | None, Option(help="Run only this model now; may be repeated.")] = None,
    tune: Annotated[int, Option(min=0, help="Tuning trials before the trainings; 0 for none.")] = 0,
    work: Annotated[Path, Option(help="Folder for the cached stages.")] = Path("runs"),
    out: Annotated[Path, Option("--out", "-o", help="Output folder for the record, page and figures.")] = Path(
        "results"
    ),
    features: Annotated[Path | None, Option(help="Folder of video features from `sooner data features`.")] = None,
    splits: Annotated[Path | None, Option(help="Folder with the official split files of the videos.")] = None,
    *,
    cluster: ClusterOptions,
    screen: Screen,
) -> None:
    """Run an experiment of the paper, and compare its curves with the published ones.

    Each stage (encoder, features, trainings, scores) is cached in the work folder. **You can press Ctrl-C at any time**: the
    same command resumes and ends with the same numbers. A second terminal with the same command shares the work. The results
    are the record NAME.json and the folder NAME with the page and the figures.

    With `--engine ray` workers share the stages, by default one worker per core of the cluster. With several machines, the work
    folder must be on a shared disk.

    Example: `sooner reproduce sat_nmnist_h --profile cpu --seeds 3`
    """
    from sooner.lab.experiments import Work, find_plan, names, read_plan, run, run_together
    from sooner.lab.experiments.sets import Videos

    if not name:
        rows = [(experiment, read_plan(find_plan(experiment), "paper").title) for experiment in names()]
        screen.table("Experiments", ["name", "what it is"], rows, text_columns=2)
        screen.json({"experiments": names()})
        return
    plan = read_plan(find_plan(name), profile)
    if (features is None) != (splits is None):
        raise InvalidArgument("features", "given together with --splits", "one of them", "Name both folders.")
    videos = None if features is None or splits is None else Videos(features.resolve(), splits.resolve())
    printer = _ProgressPrinter(screen)
    task = Work(
        work,
        plan.seeds if seeds is None else seeds,
        trials=tune,
        only=tuple(only or ()),
        videos=videos,
        verbose=screen.shows_progress,
        observer=printer,
    )
    screen.message(f"[bold]{escape(plan.title)}[/], profile {escape(profile)}. {escape(plan.about)}")
    uses_ray = any(contender.settings.training.engine == "ray" for contender in plan.contenders)
    try:
        with cluster.connected(cluster.engine or ("ray" if uses_ray else "local")):
            stages = run_together(plan, task, cluster.workers) if cluster.engine == "ray" else run(plan, task)
        _write(plan, task, stages, name, out, screen)
    except KeyboardInterrupt:
        resume = f"Finished stages are in {escape(str(work))}; the same command resumes from there."
        screen.message(f"[bold]Stopped.[/] {resume}")
        sys.exit(130)
    finally:
        printer.close()


def _write(plan: "Plan", work: "Work", stages: "Stages", name: str, out: Path, screen: Screen) -> None:
    """Write and print the results."""
    from sooner.lab.experiments import result_of
    from sooner.lab.experiments.earlier import read_record, with_earlier
    from sooner.lab.experiments.pages import write_pages
    from sooner.lab.experiments.significance import significance_of

    result = result_of(plan, stages, work.folder)
    # The models in the record, including those of earlier commands, unless they are all models of the plan.
    only = [] if len(result.outcomes) == len(plan.contenders) else list(result.outcomes)
    command = _command(name, plan.profile, work.seeds, work.trials, only)
    path = out / f"{plan.name}.json"
    record = with_earlier(result.to_dict(command, datetime.now(UTC).date().isoformat()), plan, read_record(path))
    significance = significance_of(record["models"], plan.phases or (("", plan.times[-1]),))
    record["statistics"] = {} if significance is None else significance.to_dict()
    pages = write_pages(out / plan.name, result, stages, work.folder, significance)
    write_whole(path, json.dumps(record, indent=1, allow_nan=False) + "\n")
    for table in pages.tables:
        screen.table(table.title, table.columns, table.rows)
    screen.file("Record", path)
    screen.file("Page", pages.page)
    screen.json({"record": str(path), "page": str(pages.page), "headline": record["headline"]})


def _command(name: str, profile: str, seeds: int, trials: int, only: list[str]) -> str:
    """The command that writes the same record, without folders.

    >>> _command("sat_nmnist_h", "cpu", 3, 0, ["newest frame"])
    "sooner reproduce sat_nmnist_h --profile cpu --seeds 3 --only 'newest frame'"
    """
    models = [word for model in only for word in ("--only", model)]
    tuning = ["--tune", str(trials)] if trials else []
    return shlex.join(["sooner", "reproduce", name, "--profile", profile, "--seeds", str(seeds), *models, *tuning])


def _duration(seconds: float) -> str:
    """A duration in minutes and hours.

    >>> _duration(40), _duration(600), _duration(9000)
    ('1 min', '10 min', '2 h 30 min')
    """
    minutes = max(1, round(seconds / 60))
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
