"""The commands and their arguments, and nothing else."""

# Typer looks at the annotations when the program runs, so all names in them are imported here.
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import typer

from dataset_rt import __version__
from dataset_rt.cli import gc, head, info, stats, verify
from dataset_rt.cli.failures import CommandError
from dataset_rt.cli.terminal import Terminal

PROGRAM = "dataset-rt"

Work = Callable[[Terminal], int]
"""What a command does once its arguments are parsed; returns the exit status."""

CachePath = Annotated[
    str, typer.Argument(metavar="PATH", help="The directory of a cache.", show_default=False)
]
AnyPaths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Directories of caches, or the directory that holds them.",
        show_default=False,
    ),
]
BasePath = Annotated[
    str,
    typer.Argument(metavar="BASE", help="The directory that holds caches.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document and nothing else.")]
Count = Annotated[int, typer.Option("--count", "-n", help="How many samples.")]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="NAME",
        help="Count the values of this metadata column; can be repeated. "
        "Without it, those of every column with few values.",
        show_default=False,
    ),
]
Top = Annotated[int, typer.Option("--top", help="How many values of a column to show.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")]

application = typer.Typer(
    name=PROGRAM,
    help="Look at the caches of DatasetRT, check them, and clear away dead builds.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def run(arguments: Sequence[str]) -> int:
    """Parse a command line and do what it says.

    Raises:
        CommandError: The command line cannot be parsed.
    """
    try:
        work = application(list(arguments) or ["--help"], prog_name=PROGRAM, standalone_mode=False)
    except typer.TyperException as error:
        message = " ".join(error.format_message().split()).removesuffix(".")
        raise CommandError(
            f"{message[:1].lower()}{message[1:]}\nhint: {_help_of(arguments)} says what it takes"
        ) from None
    # Help and version are printed while the command line is parsed, and leave a status.
    return work if isinstance(work, int) else work(Terminal())


def _help_of(arguments: Sequence[str]) -> str:
    commands = {command.name for command in application.registered_commands}
    named = [argument for argument in arguments[:1] if argument in commands]
    return " ".join([PROGRAM, *named, "--help"])


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"{PROGRAM} {__version__}")
        raise typer.Exit


@application.callback()
def options(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Take the options that stand before a command."""


@application.command("info")
def _info(paths: AnyPaths, *, as_json: AsJson = False) -> Work:
    """Say what caches consist of: samples, bytes, compression, shards, columns, fingerprint.

    Of a directory of caches, list the caches in it and the builds that run or were abandoned.
    """
    return partial(info.run, paths=paths, as_json=as_json)


@application.command("head")
def _head(path: CachePath, *, count: Count = 5, as_json: AsJson = False) -> Work:
    """Show the first samples of a cache: size, metadata and first bytes."""
    return partial(head.run, path=path, count=count, as_json=as_json)


@application.command("stats")
def _stats(
    path: CachePath, *, column: ColumnNames = None, top: Top = 20, as_json: AsJson = False
) -> Work:
    """Show payload sizes, compression and the values of metadata columns; reads no payloads."""
    return partial(stats.run, path=path, columns=column or [], top=top, as_json=as_json)


@application.command("verify")
def _verify(paths: AnyPaths, *, as_json: AsJson = False) -> Work:
    """Read caches whole and list every sample that is damaged.

    Ends with status 1 if one is, and with 2 if a cache could not be verified.
    """
    return partial(verify.run, paths=paths, as_json=as_json)


@application.command("gc")
def _gc(base: BasePath, *, dry_run: DryRun = False, as_json: AsJson = False) -> Work:
    """Remove what dead builds left in a directory of caches.

    That includes complete shards from which a source with iter_from would continue. Caches, and
    builds whose process lives, stay.
    """
    return partial(gc.run, base=base, is_dry_run=dry_run, as_json=as_json)
