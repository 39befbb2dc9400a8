"""Figures that a notebook shows once.

    scan.plot()            the value of the cell; by itself, pyplot would show its figure once more at the end of the cell
    figure = scan.plot()   the figure of pyplot, at the end of the cell
    figure                 the value of the cell
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def shown_once(figure: Figure) -> Figure:
    """The same figure; once IPython has shown it, pyplot does not."""
    vars(figure)["_ipython_display_"] = functools.partial(_display, figure)
    return figure


def _display(figure: Any) -> None:
    """IPython calls it to show the figure, as the value of a cell or for pyplot."""
    import IPython.display
    import matplotlib.pyplot as plt

    display: Any = IPython.display.display
    # As any other figure.
    ours = vars(figure).pop("_ipython_display_")
    try:
        display(figure)
    finally:
        vars(figure)["_ipython_display_"] = ours
    if "inline" in plt.get_backend().lower():
        plt.close(figure)
