"""Run tests with the arguments ``loss`` and ``regularizer`` for all losses and regularizers."""

from .generic import LOSSES, REGULARIZERS


def pytest_generate_tests(metafunc):
    for argument, values in (("loss", LOSSES), ("regularizer", REGULARIZERS)):
        if argument in metafunc.fixturenames and not any(
            argument in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")
        ):
            metafunc.parametrize(argument, list(values))
