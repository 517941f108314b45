"""The example inside scikit-learn runs and reaches its figures."""

from .running import load_example


def test_every_story_ends_well(capsys):
    found = load_example("in_scikit_learn").main()
    assert found["columns_of_many_kinds"] > 0.9
    assert found["a_table_as_it_is"] > 0.9
    assert set(found["a_grid_search"]) == {"mklclassifier__C", "mklclassifier__regularizer"}
    assert max(found["probabilities_of_a_hinge"]) < 0.08
    assert max(found["what_matters"], key=found["what_matters"].get).startswith("petal")
    assert found["the_learned_kernel_elsewhere"] > 0.95
    assert found["several_outputs"] == ((20, 3), (100, 5))
    assert found["frames_that_come_in_parts"] > 0.85
    assert len(capsys.readouterr().out.splitlines()) == len(found)
