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
