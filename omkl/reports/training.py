"""The section of a report on the training: history, settings, versions and checksums."""

import hashlib
import json
import platform
import zipfile
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from pathlib import Path
from typing import Any

from omkl._files import MANIFEST, PathLike
from omkl._messages import shown
from omkl.reports import plots
from omkl.reports.markup import details, html, number, table
from omkl.reports.quality import drawn

#: Packages whose versions are noted.
PACKAGES = ("omkl", "numpy", "scipy", "scikit-learn", "numba")
#: Beginnings of entries of single groups, which the table of a history leaves out.
OF_GROUPS = ("weight:", "norm:", "square_norm:", "squared_norm:")


def training_parts(model: Any, files: Mapping[str, PathLike]) -> list[str]:
    """History, settings, versions and checksums."""
    return [*_histories(model), html.heading("Settings"), _settings(model), *_provenance(files)]


def _histories(model: Any) -> list[str]:
    """Curves of the training: of an annotator, those of the models of tags and of trees."""
    if not hasattr(model, "models"):
        found = _history(getattr(model, "history_", None) or [])
    else:
        found = []
        for name, own in model.models().items():
            curves = _history(own.history_) if " of " not in name else []
            found += [html.heading(f"Training of {name}"), *curves] if curves else []
    return found or [html.paragraph("The model file holds no history of the training.", soft=True)]


def _history(records: list[dict[str, Any]]) -> list[str]:
    """Curves of the training, and its records; nothing without records."""
    if not records:
        return []
    parts = []
    if "epoch" in records[0]:
        parts += [
            drawn(plots.plot_history, records, caption="The loss along the training."),
            drawn(plots.plot_group_weights, records, caption="Weights of the groups along the training."),
        ]
    else:
        parts.append(drawn(plots.plot_gap, records, caption="How the relative duality gap closed."))
    names = list(dict.fromkeys(name for record in records for name in record if not name.startswith(OF_GROUPS)))
    rows = [[record.get(name) for name in names] for record in records]
    return [*parts, details("All records", table(names, rows))]


def _settings(model: Any) -> str:
    """Parameters that are not the default ones, and all of them."""
    header, usual = ["parameter", "value"], signature(type(model)).parameters
    parameters = {name: shown(value, 300) for name, value in model.get_params(deep=False).items()}
    own = [(name, value) for name, value in parameters.items() if value != shown(usual[name].default, 300)]
    changed = table(header, own) if own else html.paragraph("All parameters have their default values.")
    return changed + details("All parameters", table(header, parameters.items()))


def _provenance(files: Mapping[str, PathLike]) -> list[str]:
    """Versions of programs, and checksums of files."""
    rows = [[name, _version(name)] for name in PACKAGES]
    rows.append(["Python", platform.python_version()])
    parts = [html.heading("Versions"), table(["program", "version"], rows)]
    found = []
    for what, path in files.items():
        data = Path(path)
        if data.is_file():
            with data.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found.append([what, data.name, data.stat().st_size, digest])
            made_by = _made_by(data)
            if made_by:
                parts.append(html.paragraph(f"The model was saved by omkl {made_by}."))
    if found:
        parts += [html.heading("Files"), table(["file", "name", "bytes", "SHA-256"], found)]
    return parts


def _made_by(path: Path) -> str | None:
    """The version of omkl that saved a model file; None for other files."""
    try:
        with zipfile.ZipFile(path) as archive:
            return str(json.loads(archive.read(MANIFEST))["version"])
    except (zipfile.BadZipFile, KeyError, ValueError):
        return None


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def size_of(model: Any) -> dict[str, str]:
    """Sizes of a model."""
    tiles: dict[str, str] = {}
    if hasattr(model, "classes_"):
        tiles["classes" if not hasattr(model, "transitions_") else "labels"] = number(len(model.classes_))
    weights = getattr(model, "kernel_weights_", None)
    if isinstance(weights, Mapping) and weights:
        if all(isinstance(own, Mapping) for own in weights.values()):
            tiles["parts"] = number(len(weights))
        else:
            active = sum(weight > 0 for weight in weights.values())
            tiles["groups in use"] = f"{number(active)} of {number(len(weights))}"
    if hasattr(model, "dual_gap_"):
        tiles["duality gap"] = number(model.dual_gap_, 2)
    if hasattr(model, "memory_usage"):
        megabytes = model.memory_usage()["prediction"]
        written = f"{number(megabytes, 3)} MB" if megabytes >= 1 else f"{number(1000 * megabytes, 3)} kB"
        tiles["memory to predict"] = written
    return tiles
