"""Every notebook of the tutorials runs, and prints what it was saved with."""

import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "docs/site"))

NOTEBOOKS = sorted((ROOT / "docs/tutorials").glob("*.ipynb"))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("source", NOTEBOOKS, ids=lambda source: source.stem)
def test_it_prints_what_it_was_saved_with(tmp_path, source):
    for module in ("nbclient", "ipykernel", "matplotlib", "xarray", "dask", "skyhaul"):
        pytest.importorskip(module, reason=f"{module} is not installed (make python)")
    import nbformat
    import notebook

    saved = nbformat.read(source, as_version=4)
    assert list(notebook.printed(notebook.run(source, tmp_path))) == list(notebook.printed(saved))
    assert any(notebook.printed(saved))


def test_a_notebook_that_raises_is_found(tmp_path):
    """The check above can fail."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed (make python)")
    import nbformat
    import notebook

    cells = [nbformat.v4.new_code_cell(text) for text in ("print(1)", "1 / 0")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "one.ipynb")
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="ZeroDivisionError"):
        notebook.run(tmp_path / "one.ipynb", tmp_path)


@pytest.mark.parametrize("source", NOTEBOOKS, ids=lambda source: source.stem)
def test_it_is_small(source):
    assert source.stat().st_size < 200 << 10


SHOWN = [
    ("scan.plot()", 1),
    ("figure = scan.plot()", 1),
    ("figure", 1),
    ("scan.plot(figure=plt.figure())", 1),
    ("scan.survey().plot()", 1),
    ("import pickle; plt.close(pickle.loads(pickle.dumps(figure)))", 0),
]


def test_a_figure_is_shown_once(tmp_path):
    """Whether it is the value of a cell, a variable, or both, one after the other."""
    for module in ("nbclient", "ipykernel", "matplotlib", "skyhaul"):
        pytest.importorskip(module, reason=f"{module} is not installed (make python)")
    import nbformat
    import notebook

    begin = """import matplotlib.pyplot as plt, numpy as np
from skyhaul import recording
with recording.create("x.vdif", sample_rate=8000, start="2026-11-21T03:00:00", payload=2000) as out:
    out.write(np.random.default_rng(1).normal(size=(80_000, 1, 1)))
scan = recording.open("x.vdif", sample_rate=8000)"""
    cells = [nbformat.v4.new_code_cell(text) for text in (begin, *(text for text, _ in SHOWN))]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "one.ipynb")
    ran = notebook.run(tmp_path / "one.ipynb", tmp_path)
    pictures = [sum("image/png" in one.get("data", {}) for one in cell["outputs"]) for cell in ran.cells]
    assert pictures[1:] == [count for _, count in SHOWN]
