"""The ``driftline`` command: parse, call, print."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Entry point; the command needs the [monitor] extra."""
    try:
        import typer

        from driftline.demo import run
    except ModuleNotFoundError as error:
        sys.exit(f"the driftline command needs {error.name}: pip install 'driftline[monitor]'")

    app = typer.Typer(add_completion=True, no_args_is_help=True, help=__doc__, rich_markup_mode=None)

    @app.callback()
    def root() -> None:
        """How far is the data now from where it began? Without keeping where it began."""

    @app.command()
    def demo(
        windows: int = typer.Option(20, min=2, max=45, help="Windows of the stream."),
        rows: int = typer.Option(20_000, min=500, help="Rows in each window."),
        model: str = typer.Option("auto", help="Model of the log-ratio: auto, quadratic, linear, mlp."),
        figure: str = typer.Option("driftline-demo.png", help="Where to write the figure."),
        seed: int = typer.Option(0, help="Seed of the stream."),
    ) -> None:
        """Track a simulated drifting stream live, estimate beside truth, and draw a figure.

        Example: driftline demo --windows 30 --rows 5000
        """
        try:
            run(windows=windows, rows=rows, model=model, figure=figure, seed=seed)
        except (ValueError, OSError) as error:
            typer.echo(f"driftline: {error}", err=True)
            raise typer.Exit(2) from None

    app()
