"""The members of a parser that other modules of this folder use."""

from typing import Any, Protocol

from omkl.data import Treebank
from omkl.groups.templates.language import TemplateSet
from omkl.online.averaging import Predictor
from omkl.online.model import OnlineModel
from omkl.parsing.evaluation import Rule


class Parser(Protocol):
    """A :class:`~omkl.DependencyParser`; the last members are those of a fitted one."""

    templates: Any
    lexicons: Any
    keep: Any
    loss: Any
    method: str
    average: Any
    projective: bool
    single_root: bool
    labeled: bool
    ignore: Rule
    memory: float
    dtype: Any
    n_jobs: int | None
    verbose: bool
    first: Any
    folds: int
    likely: float | None
    decode: str
    random_state: Any

    templates_: TemplateSet
    temperature_: float | None
    relation_temperature_: float | None

    @property
    def model_(self) -> OnlineModel:
        """Codec and trainer."""

    @property
    def predictor_(self) -> Predictor:
        """The averaged model, frozen."""

    @property
    def template_weights_(self) -> dict[str, float]:
        """Weight of each template."""

    def parse(self, X: Treebank) -> Treebank:
        """Parse sentences."""
