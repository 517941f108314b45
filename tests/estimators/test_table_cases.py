"""Cases of tables that batch, linear and online estimators treat alike."""

import datetime
import functools
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import omkl
from omkl.data import Block, Stream, stream_csv
from omkl.data.table_columns import IDENTIFIER, TEXT
from omkl.data.table_reading import read_table
from omkl.exceptions import DataWarning, InputError

N = 60
rng = np.random.default_rng(0)
SIZE = rng.normal(size=N)
CODES = np.arange(N) % 3
IS_FIRST = (CODES == 0).astype(int)
ESTIMATORS = {
    "batch": lambda: omkl.MKLClassifier(["linear:standardize=True"], C=10.0, weighting="norms"),
    "linear": lambda: omkl.SparseLogisticRegression(0.01),
    "online": lambda: omkl.OnlineMKLClassifier(random_state=0, weighting="norms"),
}


@pytest.fixture(params=ESTIMATORS)
def estimator(request):
    return ESTIMATORS[request.param]()


def frame_of(column):
    return pd.DataFrame({"size": SIZE, "c": column})


def objects(values):
    return pd.Series([values[code] for code in CODES], dtype=object)


def days(strings):
    return pd.to_datetime(pd.Series(strings))


#: Days of three months that tell the first class.
WHEN = [f"2024-{1 + 4 * code:02d}-{1 + row % 28:02d}" for row, code in enumerate(CODES)]

#: Date, number and class of each row.
DATED = list(zip(days(WHEN).tolist(), SIZE, CODES))

#: Columns from which every estimator learns the classes.
LEARNED = {
    "intervals": pd.cut(pd.Series(CODES), [-1, 0, 1, 2]),
    "integers above 2^63": objects([2**63 + 2**60, 5, 7]),
    "unsigned integers": pd.Series(np.array([2**63 + 2**60, 5, 7], dtype=np.uint64)[CODES]),
    "surrogates": objects(["a\ud800", "b", "c"]),
    "words that end with NUL": objects(["A\0", "A", "B"]),
    "categories of floats": pd.Series(CODES * 1.0).astype("category"),
    "truth values with gaps": objects([True, False, None]),
}


@pytest.mark.slow
@pytest.mark.parametrize("column", LEARNED)
def test_every_estimator_learns_from_the_column(estimator, column, reloaded):
    X = frame_of(LEARNED[column])
    model = estimator.fit(X, IS_FIRST)
    assert model.score(X, IS_FIRST) == 1.0
    assert_array_equal(reloaded(model).predict(X), IS_FIRST)


#: Columns that no estimator takes, and the value and row in the message.
REFUSED = {
    "text among numbers": (objects([1, "u", 2]), "'u' in row 1"),
    "complex numbers": (pd.Series(SIZE + 1j), r"\+1j\) in row 0"),
    "complex objects": (objects([1.0, 2j, 3.0]), "2j in row 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_every_estimator_refuses_the_column_by_name(estimator, case):
    column, message = REFUSED[case]
    with pytest.raises(
        InputError, match=f"Column 'c' of X must hold finite numbers, got .*{message}"
    ):
        estimator.fit(frame_of(column), IS_FIRST)


#: Columns in training and at predict time that hold the same values.
SAME = {
    "floats for categories of integers": (pd.Series(CODES).astype("category"), CODES * 1.0),
    "categories of floats for those of integers": (
        pd.Series(CODES).astype("category"),
        pd.Series(CODES * 1.0).astype("category"),
    ),
    "integers for text": (pd.Series(CODES).astype(str), CODES),
    "objects for categories": (pd.Series(CODES).astype("category"), objects([0, 1.0, "2"])),
    "text for dates": (days(WHEN), WHEN),
    "dates for text": (pd.Series(WHEN), days(WHEN)),
    "dates of Python for text": (pd.Series(WHEN), days(WHEN).dt.date),
    "truth values for numbers": (IS_FIRST, IS_FIRST == 1),
}


@pytest.mark.filterwarnings("ignore:Column 'c' of X holds dates as text")
@pytest.mark.parametrize("case", SAME)
def test_types_do_not_matter_if_the_values_are_the_same(estimator, case):
    learned, predicted = SAME[case]
    model = estimator.fit(frame_of(learned), IS_FIRST)
    assert_array_equal(model.predict(frame_of(predicted)), model.predict(frame_of(learned)))


#: Columns in training and at predict time, and what the message says.
CHANGED = {
    "integers for dates": (days(WHEN), CODES, "must hold dates, as in training, got numbers"),
    "integers for dates as text": (WHEN, CODES, "must hold dates, as in training, got numbers"),
    "text for dates": (days(WHEN), objects(["a", "b", "c"]), "must hold finite numbers, got 'a'"),
    "durations for dates": (days(WHEN), pd.to_timedelta(CODES, "D"), "must hold dates"),
    "text for numbers": (CODES, objects(["a", "b", "c"]), "must hold finite numbers, got 'a'"),
    "dates for numbers": (CODES, days(WHEN), "must hold finite numbers, as in training, got dates"),
    "dates for text": (objects(["a", "b", "c"]), days(WHEN), "must hold text, as in training"),
}


@pytest.mark.filterwarnings("ignore:Column 'c' of X holds dates as text")
@pytest.mark.parametrize("case", CHANGED)
def test_another_type_is_refused_by_name(estimator, case, reloaded):
    learned, predicted, message = CHANGED[case]
    model = estimator.fit(frame_of(learned), IS_FIRST)
    for again in (model, reloaded(model)):
        with pytest.raises(InputError, match=f"Column 'c' of X {message}"):
            again.predict(frame_of(predicted))


def test_a_column_without_values_fits_every_type(estimator):
    for learned in (CODES * 1.0, days(WHEN), objects(["a", "b", "c"])):
        model = estimator.fit(frame_of(learned), IS_FIRST)
        nothing = pd.Series([None] * N, dtype=object)
        gaps = frame_of(learned)
        gaps["c"] = gaps["c"].where(gaps["size"] > 100.0)
        assert_array_equal(model.predict(frame_of(nothing)), model.predict(gaps))


def test_held_out_frames_are_read_as_the_training_frame():
    """Also by an estimator that had learned from another table before."""
    X = frame_of(objects(["a", "b", "c"])).assign(when=days(WHEN))
    model = omkl.OnlineMKLClassifier(random_state=0, early_stopping=True, epochs=3)
    for table in (X, X.rename(columns={"c": "d", "size": "c"}), X):
        assert model.fit(table, IS_FIRST, validation=(table, IS_FIRST)).score(table, IS_FIRST) > 0.9


def test_numbers_are_categories_in_later_blocks_of_a_stream_of_text():
    texts = [{"c": str(code), "size": size} for code, size in zip(CODES, SIZE.tolist())]
    numbers = [row | {"c": float(row["c"])} for row in texts]
    scores = []
    for later in (texts, numbers):
        blocks = [Block(texts, IS_FIRST, ["c", "size"]), Block(later, IS_FIRST, ["c", "size"])]
        model = omkl.OnlineMKLClassifier(random_state=0, epochs=2)
        scores.append(
            model.fit(Stream.from_iterable(blocks, block_size=N)).decision_function(texts)
        )
    assert_array_equal(*scores)


def test_unknown_categories_get_one_warning(estimator):
    model = estimator.fit(frame_of(objects(["a", "b", "c"])), IS_FIRST)
    with pytest.warns(DataWarning, match="'c' of X has unknown values, .*: 'd', 'e'") as told:
        model.predict(frame_of(objects(["d", "e", "a"])))
    assert [warning.filename for warning in told] == [__file__]


# ---- one door ------------------------------------------------------------------------------------

#: All kinds of estimators of rows.
READERS = {
    **ESTIMATORS,
    "batch, cross-validated": lambda: omkl.MKLClassifierCV(
        ["linear:standardize=True"], Cs=[1.0, 10.0], cv=2, weighting="norms"
    ),
    "linear, cross-validated": lambda: omkl.SparseLogisticRegressionCV([0.01, 0.02], cv=2),
    "regression": lambda: omkl.MKLRegressor(["linear:standardize=True"], C=1.0),
    "group lasso": lambda: omkl.GroupLasso(0.01),
    "online regression": lambda: omkl.OnlineMKLRegressor(random_state=0, weighting="norms"),
}


def dicts_of(frame):
    return [
        {name: value for name, value in row.items() if value is not None and value == value}
        for row in frame.to_dict("records")
    ]


def block_of(frame):
    if any(dtype.kind not in "biuf" for dtype in frame.dtypes):
        return Block(dicts_of(frame), None, list(frame.columns))
    return Block(frame.to_numpy(), None, list(frame.columns))


#: Forms of a table whose columns have names.
NAMED = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: pl.DataFrame({name: frame[name].tolist() for name in frame.columns}),
    "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "record batch": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
    "block": block_of,
}
FORMS = NAMED | {
    "dicts": dicts_of,
    "array": lambda frame: frame.to_numpy(),
    "sparse": lambda frame: sparse.csr_array(frame.to_numpy()),
}
NUMBERS = pd.DataFrame({"size": SIZE, "b": np.cos(SIZE), "c": CODES * 1.0})
MIXED = NUMBERS.assign(c=np.array(["x", "y", "z"])[CODES])
TABLES = {"numbers": NUMBERS, "text": MIXED}
#: Tables and forms that no estimator reads: arrays have one type.
TEXT_NEEDS_NAMES = {("text", "array"), ("text", "sparse")}


@functools.cache
def model_of(reader, table, form):
    estimator = READERS[reader]()
    if form == "sparse" and hasattr(estimator, "kernels"):
        estimator.set_params(kernels=["linear"])
    return estimator.fit(FORMS[form](TABLES[table]), IS_FIRST)


def scores_of(model, X):
    return getattr(model, "decision_function", model.predict)(X)


def cases(test):
    """Run a test over all estimators, forms and tables."""
    for name, values in (("table", TABLES), ("form", FORMS), ("reader", READERS)):
        test = pytest.mark.parametrize(name, values)(test)

    @functools.wraps(test)
    def run(reader, form, table, **more):
        if (table, form) not in TEXT_NEEDS_NAMES:
            test(reader, form, table, **more)

    return run


@cases
def test_columns_are_taken_by_name_in_any_order(reader, form, table):
    model, frame = model_of(reader, table, form), TABLES[table]
    turned = frame[["c", "size", "b"]]
    scores = scores_of(model, FORMS[form](frame))
    is_online_of_dicts = form == "dicts" and "online" in reader
    assert hasattr(model, "n_features_in_") != is_online_of_dicts
    assert (
        hasattr(model, "feature_names_in_")
        == (form in NAMED or form == "dicts") - is_online_of_dicts
    )
    if form in NAMED:
        assert model.n_features_in_ == 3
        assert model.feature_names_in_.tolist() == ["size", "b", "c"]
        for other in NAMED.values():
            assert_allclose(scores_of(model, other(turned)), scores)
    elif form == "dicts":
        assert_array_equal(scores_of(model, dicts_of(turned)), scores)


@cases
def test_other_columns_are_refused_by_name(reader, form, table):
    model, frame = model_of(reader, table, form), TABLES[table]
    more, fewer = frame.assign(new=1.0), frame.drop(columns="b")
    if form == "dicts":  # rows may lack keys, and unknown keys have no weight
        assert_array_equal(scores_of(model, dicts_of(more)), scores_of(model, dicts_of(frame)))
        expected = scores_of(model, dicts_of(frame.assign(b=np.nan)))
        assert_array_equal(scores_of(model, dicts_of(fewer)), expected)
        return
    messages = ("X has 4 features, but", "X has 2 features, but")
    if form in NAMED:
        messages = ("X has the unknown column 'new'", "X has no column 'b'")
    for other, message in zip((more, fewer), messages):
        with pytest.raises(InputError if form in NAMED else ValueError, match=message):
            model.predict(FORMS[form](other))


@cases
def test_values_are_read_alike(reader, form, table):
    """Text where numbers were, missing values, dates, types, and tables without rows."""
    model, frame = model_of(reader, table, form), TABLES[table]
    make, column = FORMS[form], "1" if form == "array" else "'b'"
    integers = frame.assign(b=np.arange(N) % 2)
    floats = integers.astype({"b": float})
    assert_allclose(scores_of(model, make(integers)), scores_of(model, make(floats)))
    with pytest.raises(ValueError, match=r"row|sample"):
        model.predict(make(frame[:0]))
    if form == "sparse":
        return
    assert np.isfinite(scores_of(model, make(frame.assign(b=np.nan)))).all()
    with pytest.raises(
        InputError, match=f"Column {column} of X must hold finite numbers, got 't' in row 0"
    ):
        model.predict(make(frame.assign(b="t")))
    if form in set(NAMED) - {"block"}:
        dates = frame.assign(b=pd.Timestamp("2024-02-29"))
        with pytest.raises(
            InputError, match="Column 'b' of X must hold finite numbers, as in training, got dates"
        ):
            model.predict(make(dates))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("form", [*NAMED, "dicts"])
def test_unknown_categories_count_as_missing_with_one_warning(reader, form):
    model, make = model_of(reader, "text", form), FORMS[form]
    unknown = MIXED.assign(c=["w", "v"] * (N // 2))
    with pytest.warns(DataWarning, match="Column 'c' of X has unknown values") as told:
        scores = scores_of(model, make(unknown))
    assert [warning.filename for warning in told] == [__file__]
    missing = MIXED.assign(c=pd.Series([None] * N, dtype=object))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert_allclose(scores_of(model, make(missing)), scores)


def test_a_single_dict_of_a_stream_gets_no_warning():
    model = model_of("online", "text", "dicts")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unknown = model.decision_function([{"size": 1.0, "b": 0.5, "c": "w"}])
        missing = model.decision_function([{"size": 1.0, "b": 0.5}])
    assert_array_equal(unknown, missing)


@pytest.mark.parametrize("form", NAMED)
@pytest.mark.parametrize("table", TABLES)
def test_streams_are_read_as_their_tables(form, table):
    model, frame = model_of("online", table, form), TABLES[table]
    read = NAMED[form]

    def stream(frame):
        pair = read(frame) if form == "block" else (read(frame), None)
        return Stream.from_iterable([pair])

    scores = scores_of(model, read(frame))
    for given in (frame, frame[["c", "size", "b"]]):
        assert_allclose(scores_of(model, stream(given)), scores)
    for other, message in (
        (frame.assign(new=1.0), "X has the unknown column 'new'"),
        (frame.drop(columns="b"), "X has no column 'b'"),
        (frame.assign(b="t"), "Column 'b' of X must hold finite numbers, got 't' in row 0"),
    ):
        with pytest.raises(InputError, match=message):
            model.predict(stream(other))


def test_later_tables_of_a_stream_have_the_columns_of_the_first():
    pairs = [(NUMBERS, IS_FIRST), (NUMBERS[["c", "b", "size"]], IS_FIRST)]
    block = Stream.from_iterable(pairs).read()
    assert_array_equal(block.X[:N], block.X[N:])
    with pytest.raises(InputError, match="stream has the unknown column 'new'"):
        Stream.from_iterable([*pairs, (NUMBERS.assign(new=1.0), IS_FIRST)]).read()


@pytest.mark.parametrize("rows", [[{"a": 1.0}, 2.0], [{"a": 1.0}, {1: 2.0}]])
def test_rows_of_batch_estimators_are_dicts_with_strings_as_keys(rows):
    for reader in ("batch", "linear"):
        with pytest.raises(InputError, match="Row 1 of X must be a dict whose keys are strings"):
            READERS[reader]().fit(rows * 10, [0, 1] * 10)


@pytest.mark.parametrize("form", [*NAMED, "dicts"])
@pytest.mark.parametrize("reader", ["batch", "online"])
def test_shapes_are_of_columns_by_name(reader, form):
    kernels = omkl.kernels.per_column("linear", ["size", "b"])
    model = READERS[reader]().set_params(kernels=kernels)
    frame = NUMBERS[["size", "b"]]
    shapes = model.fit(FORMS[form](frame), IS_FIRST).shapes(FORMS[form](frame))
    turned = model.shapes(FORMS[form](frame[["b", "size"]]))
    assert {part.columns for part in shapes.parts} <= {("size",), ("b",)}
    for one, other in zip(shapes.parts, turned.parts):
        assert one.columns == other.columns
        assert_allclose(one.effect, other.effect)
        assert_allclose(one.grid, other.grid)


def test_names_of_columns_are_strings_or_positions(estimator):
    mixed = pd.DataFrame(np.column_stack([SIZE, CODES]), columns=["a", 1])
    with pytest.raises(InputError, match="must have strings as names, or none"):
        estimator.fit(mixed, IS_FIRST)
    unnamed = mixed.set_axis([7, 8], axis=1)
    model = estimator.fit(unnamed, IS_FIRST)
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
    assert_array_equal(model.predict(unnamed), model.predict(unnamed.to_numpy()))
    with pytest.warns(UserWarning, match="X has feature names, but"):
        model.predict(unnamed.set_axis(["a", "b"], axis=1))


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "row", [NUMBERS["b"], NUMBERS.iloc[0], pl.Series(SIZE), pa.array(SIZE), None, {"size": SIZE}]
)
def test_single_columns_and_rows_are_refused_in_one_sentence(reader, row):
    model = model_of(reader, "numbers", "pandas")
    with pytest.raises(ValueError, match=r"2-dimensional|2D array|must be a table"):
        model.predict(row)


@pytest.mark.parametrize("reader", READERS)
def test_rows_that_are_no_dicts_or_records_are_refused(reader):
    rows = dicts_of(NUMBERS)
    with pytest.raises(InputError, match="Row 1 of X must be a dict"):
        READERS[reader]().fit([rows[0], 2.0, *rows[2:]], IS_FIRST)
    with pytest.raises(InputError, match="must not be an array of records"):
        READERS[reader]().fit(NUMBERS.to_records(index=False), IS_FIRST)


def test_dicts_without_values_are_refused_by_batch_estimators():
    for reader in ("batch", "linear"):
        with pytest.raises(InputError, match="must hold at least one value, got empty dicts"):
            READERS[reader]().fit([{}] * N, IS_FIRST)


@pytest.mark.parametrize("reader", READERS)
def test_dicts_are_not_rows_of_an_array_by_the_order_of_their_keys(reader):
    model = model_of(reader, "numbers", "array")
    with pytest.raises(InputError, match=r"trained on rows of 3 .*, got dicts"):
        model.predict(dicts_of(NUMBERS[["c", "b", "size"]]))


def test_models_of_dicts_take_columns_by_name_only():
    for form in ("dicts", "pandas"):
        model = model_of("online", "text", form)
        with pytest.raises(InputError, match="must have strings as names"):
            model.predict(MIXED.set_axis([0, 1, 2], axis=1))
    model = model_of("online", "numbers", "dicts")
    scores = model.decision_function(block_of(NUMBERS[["c", "b", "size"]]))
    assert_array_equal(scores, model.decision_function(dicts_of(NUMBERS)))


def test_dates_and_gaps_in_arrays_of_objects_are_read_as_in_frames(estimator):
    frame = NUMBERS.assign(c=days(WHEN), b=NUMBERS["b"].where(CODES > 0))
    model = estimator.fit(frame, IS_FIRST)
    array = frame.astype(object).where(frame.notna(), pd.NA).to_numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for given in (array, Block(array, None, list(frame.columns))):
            assert_allclose(model.decision_function(given), model.decision_function(frame))


def test_sequences_may_be_frames_without_rows():
    labels = [np.arange(3) % 2, np.arange(3) % 2]
    for frame in (NUMBERS, MIXED, NAMED["polars"](MIXED)):
        model = omkl.SequenceLabeler(random_state=0, epochs=1).fit([frame[:3], frame[3:6]], labels)
        empty, full = model.predict([frame[:0], frame[:2]])
        assert (len(empty), len(full)) == (0, 2)


def test_intervals_of_months_are_refused(estimator):
    months = pa.array([pa.MonthDayNano([1, 2, 3])] * N)
    with pytest.raises(InputError, match="'c' is month_day_nano_interval"):
        estimator.fit(pa.table({"size": SIZE, "c": months}), IS_FIRST)


@pytest.mark.parametrize("reader", [name for name in READERS if "online" not in name])
@pytest.mark.parametrize("start", TABLES)
def test_a_refused_fit_keeps_the_model(reader, start):
    X = TABLES[start]
    model = READERS[reader]().fit(X, IS_FIRST)
    expected = scores_of(model, X)
    other = MIXED.set_axis(["k", "l", "m"], axis=1)
    wrong_targets = np.zeros(N, dtype=int)
    if not hasattr(model, "classes_"):
        wrong_targets = np.full(N, np.inf)
    for table, y, message in (
        (other.assign(l=np.inf), IS_FIRST, "finite"),
        (other.assign(missing=[1.0, None] * (N // 2)), IS_FIRST, "column 'missing'"),
        (other, IS_FIRST[1:], "inconsistent"),
        (other, wrong_targets, "class|infinity"),
        (np.full((N, 2), np.inf), IS_FIRST, "finite"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(table, y)
        assert_array_equal(scores_of(model, X), expected)


@pytest.mark.parametrize("start", [*TABLES, "dicts"])
@pytest.mark.parametrize("streamed", [False, True])
def test_an_online_fit_that_is_refused_late_keeps_the_model(start, streamed):
    X = TABLES.get(start)
    if X is None:
        X = dicts_of(NUMBERS)
    model = READERS["online"]().fit(X, IS_FIRST)
    expected = scores_of(model, X)
    learned = {name: value for name, value in vars(model).items() if name.endswith("_")}
    infinite = pd.DataFrame({"k": np.where(CODES > 1, np.inf, SIZE), "l": MIXED["c"]})
    for table, message in (
        (infinite, "k.*finite"),
        ([{"k": {"l": {"m": 1.0}}}] * N, "'k'"),
        (NUMBERS.assign(b=np.inf), "finite"),
    ):
        examples = (table, IS_FIRST)
        if streamed:
            block = Block(table, IS_FIRST) if isinstance(table, list) else (table, IS_FIRST)
            examples = (Stream.from_iterable([block]),)
        with pytest.raises(InputError, match=message):
            model.fit(*examples)
        assert_array_equal(scores_of(model, X), expected)
        for name, value in learned.items():
            assert getattr(model, name) is value
        assert {name for name in vars(model) if name.endswith("_")} == learned.keys()


# ---- tables that are no tables, and values that are no numbers -----------------------------------


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("table", "message"),
    [
        (tuple(dicts_of(NUMBERS)), "Rows that are dicts must be in a list"),
        (np.array(dicts_of(NUMBERS), dtype=object), "Rows that are dicts must be in a list"),
        (np.matrix(NUMBERS.to_numpy()), "X must not be a matrix of NumPy"),
        ({1.0, 2.0}, "X must be a table, got"),
        ([[{1}, 2.0, 3.0]] * N, r"Column 0 of X must hold finite numbers, got \{1\} in row 0"),
        ([[1.0, 10**400, 3.0]] * N, "Column 1 of X must hold finite numbers, got 1000"),
        (np.array([[pd.Period("2024"), 1.0, 2.0]] * N), "Column 0 of X must hold finite numbers"),
    ],
    ids=["tuple", "array of dicts", "matrix", "set", "sets", "huge", "periods"],
)
def test_what_is_no_table_of_numbers_is_refused_in_one_sentence(reader, table, message):
    model = model_of(reader, "numbers", "array")
    for method in (READERS[reader]().fit, model.fit):
        with pytest.raises(InputError, match=message):
            method(table, IS_FIRST)
    with pytest.raises(InputError, match=message):
        model.predict(table)


@pytest.mark.parametrize("reader", READERS)
def test_lists_of_rows_are_read_as_arrays_of_objects(reader):
    rows = [[when, float(size), pd.NA if code else 1.0] for when, size, code in DATED]
    model = READERS[reader]().fit(rows, IS_FIRST)
    expected = scores_of(model, np.array(rows, dtype=object))
    assert np.isfinite(expected).all()
    assert_array_equal(scores_of(model, rows), expected)
    assert_array_equal(scores_of(model, tuple(map(tuple, rows))), expected)


@pytest.mark.parametrize("value", [pd.Period("2024-01"), Fraction(1, 3), pd.Interval(0, 1)])
def test_columns_of_other_objects_are_refused_by_name(estimator, value):
    objects_of_polars = pl.Series("c", [value] * N, dtype=pl.Object)
    for frame in (
        frame_of([value] * N),
        pl.DataFrame([pl.Series("size", SIZE), objects_of_polars]),
    ):
        with pytest.raises(InputError, match="Column 'c' of X cannot be converted"):
            estimator.fit(frame, IS_FIRST)


#: Values of a key of dicts in training, of other kinds, and what the message says.
KINDS_OF_KEYS = {
    "dates for numbers": (CODES.tolist(), days(WHEN).tolist(), "finite numbers, as .* got dates"),
    "days for numbers": (CODES.tolist(), days(WHEN).dt.date.tolist(), "finite .*, got dates"),
    "durations for numbers": (
        CODES.tolist(),
        pd.Series(pd.to_timedelta(CODES, "D")).tolist(),
        "finite numbers, as in training, got durations",
    ),
    "numbers for dates": (days(WHEN).tolist(), CODES.tolist(), "dates, as .*, got numbers"),
    "durations for dates": (
        [pd.NaT, *days(WHEN)[1:]],
        pd.Series(pd.to_timedelta(CODES, "D")).tolist(),
        "dates, as in training, got durations",
    ),
}


@pytest.mark.parametrize("case", KINDS_OF_KEYS)
def test_online_models_of_dicts_compare_the_kinds_of_keys(case, reloaded):
    learned, others, message = KINDS_OF_KEYS[case]
    X, other = ([{"c": v, "size": s} for v, s in zip(c, SIZE)] for c in (learned, others))
    model = READERS["online"]().fit(X, IS_FIRST)
    expected = model.decision_function(X)
    missing = [row | {"c": None} for row in X]
    for again in (model, reloaded(model)):
        assert_array_equal(again.decision_function(X), expected)
        assert np.isfinite(again.decision_function(missing)).all()
        with pytest.raises(InputError, match=f"Column 'c' of X must hold {message}"):
            again.predict(other)
    with pytest.raises(InputError, match=f"Column 'c' of X must hold {message}"):
        READERS["online"]().fit(X + other, np.append(IS_FIRST, IS_FIRST))


# ---- dates as text -------------------------------------------------------------------------------


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_dates_as_text_are_days_in_frames_as_in_files(library, tmp_path):
    texts = ["2024-02-29", None, " 1969-12-31 12:00:00 "]
    frame = library({"when": texts, "size": [1.0, 2.0, 3.0]})
    (tmp_path / "a.csv").write_text("when,size\n" + "".join(f"{t or ''},1\n" for t in texts))
    with pytest.warns(DataWarning, match="'when' of X holds dates as text"):
        column, _ = read_table(frame).columns
    epoch = datetime.datetime(1970, 1, 1)
    first = (datetime.datetime(2024, 2, 29) - epoch).days
    assert_array_equal(column.values, [first, np.nan, -0.5])
    assert_array_equal(stream_csv(tmp_path / "a.csv").read().X[:, 0], column.values)


def test_dates_as_text_are_said_once(estimator):
    X = frame_of(WHEN)
    with pytest.warns(DataWarning, match="holds dates as text") as told:
        model = estimator.fit(X, IS_FIRST)
    assert len([warning for warning in told if "dates" in str(warning.message)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)
        estimator.fit(X.assign(c=days(WHEN)), IS_FIRST)


@pytest.mark.parametrize(
    "texts", [["2024-02-29", "soon"], ["2024-02-29", "2024-13-01"], ["1", "2"]]
)
def test_text_that_is_not_all_dates_stays_text(texts):
    (column,) = read_table(pd.DataFrame({"c": texts})).columns
    assert column == ("c", TEXT, texts)
    (column,) = read_table(pd.DataFrame({"c": ["2024-02-29"] * 2}).astype("category")).columns
    assert column.kind == TEXT


# ---- columns of identifiers ----------------------------------------------------------------------


def test_a_column_of_identifiers_changes_nothing_and_is_named(estimator, reloaded):
    X = frame_of(objects(["a", "b", "c"]))
    names = [f"u{row}" for row in rng.permutation(N)]
    names[5] = names[4]
    with pytest.warns(DataWarning, match="Column 'id' of X is left out: .*59 values in 60 rows"):
        model = estimator.fit(X.assign(id=names), IS_FIRST)
    assert model.column_kinds_[-1] == IDENTIFIER
    without = (
        ESTIMATORS["online"]()
        if hasattr(model, "model_")
        else type(model)(**model.get_params(deep=False))
    )
    expected = without.fit(X, IS_FIRST).decision_function(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for again in (model, reloaded(model)):
            scores = again.decision_function(X.assign(id="new"))
            assert_allclose(scores, expected, atol=1e-6)


def regression(n=330):
    numbers = np.random.default_rng(1).normal(size=(n, 4))
    X = pd.DataFrame(numbers, columns=list("abcd"))
    y = np.sin(X["a"]) + X["b"] * X["c"] + 0.1 * numbers[:, 3]
    return X, y


@pytest.mark.filterwarnings("ignore:Column 'c' of X has unknown")
def test_the_first_model_of_a_table_with_identifiers_is_as_good():
    X, y = regression()
    scores = []
    for table in (X, X.assign(id=[f"u{row}" for row in range(len(X))])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            model = omkl.MKLRegressor().fit(table[:230], y[:230])
            scores.append(model.score(table[230:], y[230:]))
    assert scores[1] > scores[0] - 0.02 > 0.6


def test_all_categories_of_a_column_share_a_scale():
    """Compare the Gaussian kernel with one of columns that are scaled by hand."""
    cities = np.array(["a"] * 40 + ["b"] * 17 + ["c"] * 3)
    X = frame_of(cities).assign(size=7.0 * SIZE)
    model = omkl.MKLRegressor(["gaussian:sigma2=2,standardize=True"], C=1.0).fit(X, SIZE)
    one_hot = (cities[:, None] == np.array(["a", "b", "c"])).astype(float)
    city = one_hot / np.sqrt(one_hot.var(axis=0).sum())
    columns = np.column_stack([SIZE / SIZE.std(), city])
    squares = np.square(columns[:, None] - columns[None]).sum(axis=2)
    assert_allclose(model.transform(X), np.exp(-squares / 4.0), atol=1e-12)


# ---- arrays, dicts, labels, targets --------------------------------------------------------------


COMPLEX = np.column_stack([SIZE, CODES]) + 1j


@pytest.mark.parametrize("X", [COMPLEX, sparse.csr_array(COMPLEX), COMPLEX.astype(object)])
def test_complex_numbers_are_refused(estimator, X):
    with pytest.raises(InputError, match=r"must hold (real|finite) numbers"):
        estimator.fit(X, IS_FIRST)


@pytest.mark.parametrize("value", [1j, np.complex128(1j), np.array([1j, 2.0])])
def test_complex_numbers_in_dicts_are_refused(value):
    with pytest.raises(InputError, match="'a' must "):
        omkl.OnlineMKLClassifier().fit([{"a": value}] * 4, [0, 1] * 2)


@pytest.mark.parametrize("as_stream", [False, True])
def test_text_where_dicts_held_numbers_is_refused(as_stream):
    rows = [{"a": size, "b": f"w{code}"} for size, code in zip(SIZE.tolist(), CODES)]
    model = omkl.OnlineMKLClassifier(random_state=0).fit(rows, IS_FIRST)
    wrong = [rows[0], rows[1] | {"a": "much"}]
    rows = Stream.from_iterable([(row, None) for row in wrong]) if as_stream else wrong
    with pytest.raises(InputError, match="'a' of X must hold finite numbers, got 'much' in row 1"):
        model.predict(rows)


def test_an_entry_of_another_kind_is_warned_of_once():
    """Blocks of 1,024 rows are encoded one after the other, and 4,096 by each thread."""
    rows = [{"size": size, "late": 1.0 + size} for size in SIZE.tolist()]
    model = omkl.OnlineMKLClassifier(["linear:on=size"], random_state=0).fit(rows, IS_FIRST)
    texts = [row | {"late": "x"} for row in rows * 100]
    with pytest.warns(DataWarning, match="'late' holds text, and was learned from numbers") as told:
        model.predict(texts)
    assert len(told) == 1


@pytest.mark.parametrize("make", [list, pd.Series, lambda labels: np.array(labels, dtype=object)])
def test_labels_that_differ_in_a_last_nul_are_two_classes(estimator, make, reloaded):
    labels = ["A\0" if first else "A" for first in IS_FIRST]
    X = frame_of(objects(["a", "b", "c"]))
    model = reloaded(estimator.fit(X, make(labels)))
    assert model.classes_.tolist() == ["A", "A\0"]
    assert model.predict(X).tolist() == labels


def test_labels_of_tokens_that_differ_in_a_last_nul_are_two():
    labels = [["A\0" if word == "x" else "A" for word in sentence] for sentence in ("xyx", "yx")]
    sentences = [list("xyx"), list("yx")]
    model = omkl.SequenceLabeler(random_state=0, epochs=20).fit(sentences, labels)
    assert [list(row) for row in model.predict(sentences)] == labels


@pytest.mark.parametrize("name", ["OnlineMKLRegressor", "OnlineMKLClassifier"])
def test_several_outputs_point_to_the_estimator_that_learns_them(name):
    better = name.removeprefix("Online")
    with pytest.raises(
        InputError, match=rf"{name} .* y of shape \(60, 2\): {better} learns several"
    ):
        getattr(omkl, name)().fit(SIZE[:, None], np.column_stack([IS_FIRST, CODES > 1]))
