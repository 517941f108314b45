"""How far a call of ``fit`` goes through the code: files crossed, depth, and pairs of files that call each other."""

import sys
from pathlib import Path

import numpy as np

import omkl
from omkl.data import Stream

ROOT = str(Path(omkl.__file__).parent)


def walked(call):
    """``(files of omkl crossed, depth of omkl frames, pairs of files that call each other)`` of a call."""
    stacks, files, edges, depth = [], set(), set(), 0

    def profile(frame, event, argument):
        nonlocal depth
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(ROOT):
            outer = frame.f_back
            while outer is not None and not outer.f_code.co_filename.startswith(ROOT):
                outer = outer.f_back
            if outer is not None and outer.f_code.co_filename != name:
                edges.add((outer.f_code.co_filename, name))
            files.add(name)
            stacks.append(frame)
            depth = max(depth, len(stacks))
        elif event == "return" and name.startswith(ROOT) and stacks:
            stacks.pop()

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(files), depth, sorted((a, b) for a, b in edges if (b, a) in edges and a < b)


def test_a_shuffled_stream_with_a_checkpoint(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    stream = Stream.from_arrays(X, X[:, 0] > 0, 50).shuffled(100, random_state=0)
    model = omkl.OnlineMKLClassifier(["linear", "gaussian"], epochs=2, random_state=0)
    model.fit(stream, checkpoint=tmp_path / "warm", checkpoint_every="100 rounds")
    files, depth, mutual = walked(lambda: model.fit(stream, checkpoint=tmp_path / "run", checkpoint_every="100 rounds"))
    print(files, depth, [tuple(path.removeprefix(ROOT) for path in pair) for pair in mutual])
    assert files <= 45
    assert depth <= 15


def test_a_labeler_on_dicts():
    X = [[{"word": w} for w in line.split()] for line in ("a dog", "the cat", "a cat")]
    y = [["D", "N"]] * 3
    labeler = omkl.SequenceLabeler(epochs=2, random_state=0)
    labeler.fit(X, y)
    files, depth, mutual = walked(lambda: labeler.fit(X, y))
    print(files, depth, [tuple(path.removeprefix(ROOT) for path in pair) for pair in mutual])
    assert files <= 37
    assert depth <= 13
