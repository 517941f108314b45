"""Inputs found by what they reach: libFuzzer, through atheris, mutates what makes new lines of omkl run.

::

    python -m tests.robustness.fuzz TARGET FOLDER -max_total_time=600

where TARGET is a name of :data:`TARGETS`, and FOLDER takes the inputs that reached something new, for the next time,
and beside them those that came through, ``crash-...``. Loops that are compiled elsewhere run as Python here, so that
their lines count, and an index beyond an array is an error.
"""

import copy
import io
import json
import os
import sys
import traceback
import zipfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

atheris = pytest.importorskip("atheris", reason="needs atheris: pip install atheris")

TARGET = sys.argv[1] if __name__ == "__main__" else ""
ROOT = Path(__file__).parents[2]
#: Modules that are compiled as ever: models have indices for them.
COMPILED = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in ROOT.glob("omkl/**/_jit_*.py")]
if TARGET and not TARGET.startswith(("model:", "checkpoint:")):
    os.environ["NUMBA_DISABLE_JIT"], COMPILED = "1", []

with atheris.instrument_imports(include=["omkl"], exclude=COMPILED) if TARGET else nullcontext():
    import omkl
    from omkl._components import resolve
    from omkl._files import read_archive, write_archive
    from omkl.exceptions import ModelFileError, OmklError
    from omkl.groups import TemplateSet
    from omkl.kernels import as_kernel
    from omkl.losses.pointwise import PointwiseLoss
    from omkl.regularizers import Regularizer

    from .damaged_files import MOST_CHARACTERS, TOKENS, complaint
    from .reader_files import reader_of, small_files
    from .test_models import MODELS, VALUES, WORDS, X, Y, leaves
    from .test_reader_strings import KERNEL_WORDS, TEMPLATE_WORDS, check

FILES = dict(small_files())
CHECKPOINTED = {
    "kernels": (omkl.OnlineMKLClassifier(["linear", "gaussian"], epochs=2, random_state=0), X, Y),
    "budget": (omkl.OnlineMKLClassifier(["gaussian"], budget=5, epochs=2, random_state=0), X, Y),
    "words": (omkl.SequenceLabeler(epochs=2, random_state=0), WORDS, [["D", "N", "V"]] * 4),
}


def of_files(name, folder):
    """What reads bytes as a file of a reader; and the good file."""
    path = folder / name

    def test(data):
        path.write_bytes(data)
        if problem := complaint(reader_of(name), path, most_seconds=20.0):
            raise AssertionError(problem)

    return test, [FILES[name]]


def of_texts(words, *readings):
    """What reads bytes as a text, in each way; and words of its language."""

    def test(data):
        text = data.decode("utf-8", "surrogateescape")
        for reading in readings:
            check(reading, text)

    return test, [word.encode() for word in words.split()]


def edited(manifest, arrays, source):
    """An archive with one to three things done to it that the bytes in ``source`` tell."""
    manifest, arrays = copy.deepcopy(manifest), dict(arrays)
    for _ in range(source.ConsumeIntInRange(1, 3)):
        if source.ConsumeBool():
            paths = [path for path in leaves(manifest) if path and path[0] != "format"]
            *rest, last = source.PickValueInList(paths)
            place = manifest
            for key in rest:
                place = place[key]
            number = source.ConsumeInt(8)
            place[last] = copy.deepcopy(source.PickValueInList([*VALUES, number, place]))
            continue
        name = source.PickValueInList(sorted(arrays))
        array = np.array(arrays[name])
        if source.ConsumeBool() and array.size:
            content = array.reshape(-1).view(np.uint8)
            at, given = source.ConsumeIntInRange(0, content.size - 1), source.ConsumeBytes(8)
            content[at : at + len(given)] = np.frombuffer(given, np.uint8)[: content.size - at]
            arrays[name] = array
        else:
            changes = [array.ravel()[1:], array[:0] if array.ndim else array, np.stack([array, array]),
                       array.astype(float), np.zeros(array.shape, "M8[s]"), array.ravel()[:, None]]  # fmt: skip
            arrays[name] = source.PickValueInList(changes)
    return manifest, arrays


def of_models(name, folder):
    """What edits a model file, loads it and predicts with it."""
    path = folder / "model.npz"
    MODELS[name]().save(path)
    manifest, arrays = read_archive(path)
    del manifest["arrays"]
    inputs = WORDS if name == "words" else X

    def test(data):
        write_archive(path, *edited(manifest, arrays, atheris.FuzzedDataProvider(data)))
        try:
            model = omkl.load(path)
        except ModelFileError as error:
            check_told(error)
            return
        try:
            model.predict(inputs)
        except Exception:
            # numbers that make no sense: what they end in may be Python's own, but no crash
            return

    return test, [bytes(64)]


def check_told(error):
    assert len(str(error)) < MOST_CHARACTERS
    assert "\n" not in str(error)


def check_place(error, name):
    """An error of Python's own has not come from a function of this name."""
    assert all(frame.name != name for frame in traceback.extract_tb(error.__traceback__)), traceback.format_exc()


def clear(folder):
    for path in folder.glob("checkpoint-*.npz"):
        path.unlink()


def of_checkpoints(name, folder):
    """What edits a checkpoint, and goes on from it."""
    model, inputs, labels = CHECKPOINTED[name]
    clear(folder)
    model.fit(inputs, labels, checkpoint=folder, checkpoint_every="3 rounds")
    path = folder / "checkpoint-0000000001.npz"
    manifest, arrays = read_archive(max(folder.glob("checkpoint-*.npz")))
    del manifest["arrays"]
    manifest["run"] = json.loads(manifest["run"]["json"])

    def test(data):
        clear(folder)
        changed, named = edited(manifest, arrays, atheris.FuzzedDataProvider(data))
        if isinstance(changed.get("run"), dict):
            changed["run"] = {"json": json.dumps(changed["run"])}
        write_archive(path, changed, named)
        try:
            model.fit(inputs, labels, checkpoint=folder, resume=True)
        except OmklError as error:
            check_told(error)
        except Exception as error:
            # once training goes on, as above
            check_place(error, "restore")

    return test, [bytes(64)]


TEXTS = {
    "kernels": lambda: of_texts(
        KERNEL_WORDS, lambda text: as_kernel(text).fit(np.eye(3)), lambda text: resolve(Regularizer, text, "part"),
        lambda text: resolve(PointwiseLoss, text, "part"),
    ),
    "templates": lambda: of_texts(TEMPLATE_WORDS, lambda text: TemplateSet.resolve(text.split("\n"))),
}  # fmt: skip
TARGETS = [
    *sorted(FILES), *(f"text:{name}" for name in TEXTS), *(f"model:{name}" for name in MODELS),
    *(f"checkpoint:{name}" for name in CHECKPOINTED),
]  # fmt: skip


def mutate_member(data, most, seed):
    """Mutate one member of a zip file, whose checksums are right again afterwards; or any other bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info, archive.read(info)) for info in archive.infolist()]
    except Exception:
        members = []
    rng = np.random.default_rng(seed)
    if not members or rng.random() < 0.2:
        return atheris.Mutate(data, most)
    which, sink = rng.integers(len(members)), io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for k, (info, content) in enumerate(members):
            archive.writestr(info, atheris.Mutate(content, len(content) + 64) if k == which else content)
    return sink.getvalue()


def main():
    np.seterr(all="ignore")  # as in compiled loops
    os.fsync = lambda _: None
    folder, (kind, _, name) = Path(sys.argv[2]), TARGET.partition(":")
    inputs, work = folder / "inputs", folder / "work"
    for part in (inputs, work):
        part.mkdir(parents=True, exist_ok=True)
    if kind == "text":
        test, seeds = TEXTS[name]()
    else:
        test, seeds = {"model": of_models, "checkpoint": of_checkpoints}.get(kind, of_files)(name or kind, work)
    for number, seed in enumerate(seeds):
        (inputs / f"seed{number}").write_bytes(seed)
    words = ["".join(f"\\x{byte:02x}" for byte in token) for token in TOKENS if len(token) < 60]
    (folder / "words").write_text("".join(f'"{word}"\n' for word in words))
    options = [f"-dict={folder}/words", f"-artifact_prefix={folder}/", "-rss_limit_mb=3000", "-timeout=60"]
    atheris.Setup([sys.argv[0], str(inputs), *options, *sys.argv[3:]], test, custom_mutator=mutate_member)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
