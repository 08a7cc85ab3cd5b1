"""A progress bar, if tqdm is installed."""

from __future__ import annotations

import sys
from typing import Any


class Bar:
    """Shows how many runs have ended, how many of them failed, and the remaining time, on standard error or in a
    notebook. ``shown=None``: on a terminal or in a notebook, if tqdm is installed.
    """

    def __init__(self, total: int, skipped: int, shown: bool | None):
        self._bar: Any = None
        self._failed = 0
        if shown is None:
            shown = (sys.stderr.isatty() or _in_notebook()) and _installed()
        if shown:
            if not _installed():
                raise ImportError("a progress bar needs tqdm: `pip install tqdm`, or leave `progress` out")
            from tqdm.auto import tqdm

            about = {} if not skipped else {"skipped": skipped}
            self._bar = tqdm(total=total, initial=skipped, unit="run", desc="sweep", postfix=about, smoothing=0.05)
            self._about = about

    def ended(self, failed: bool) -> None:
        """Counts a run."""
        if self._bar is not None:
            if failed:
                self._failed += 1
                self._about["failed"] = self._failed
                self._bar.set_postfix(self._about, refresh=False)
            self._bar.update()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _installed() -> bool:
    import importlib.util

    return importlib.util.find_spec("tqdm") is not None
