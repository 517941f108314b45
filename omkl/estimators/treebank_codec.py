"""The codec of parsers: treebanks as templates look at them, trees, and the relations of their arcs."""

from typing import Any, NamedTuple

import numpy as np

from omkl.data import Treebank
from omkl.estimators.arc_examples import ArcExamples
from omkl.estimators.relations import RelationLabeler
from omkl.estimators.runs import fingerprint
from omkl.estimators.treebanks import usable_templates
from omkl.exceptions import InputError
from omkl.groups import ArcTemplateBank, TemplateSet
from omkl.online import OnlineTrainer, Predictor
from omkl.persistence import Packer, Unpacker
from omkl.structures import NonProjectiveTree, ProjectiveTree


class TreeData(NamedTuple):
    """Checked trees, a weight for each sentence, and whether these are all that there are."""

    treebank: Treebank
    weights: np.ndarray | None
    whole: bool


class TreebankCodec:
    """Sentences and their trees as examples; see :class:`~omkl.online.model.Codec`.

    Parameters
    ----------
    estimator : DependencyParser
        For its parameters ``templates``, ``memory``, ``exact``, ``dtype``, ``projective``, ``single_root``,
        ``labeled`` and ``average``.

    Attributes
    ----------
    templates : TemplateSet
        Those in use.
    relations : RelationLabeler or None
    features : dict of str to list
        The strongest features of each template by name, with their weights.
    """

    def __init__(self, estimator: Any) -> None:
        self._templates = estimator.templates
        # the frozen copy that predicts takes as much as the weights
        self._memory = estimator.memory * (1 / 2 if estimator.average in (None, "last") else 2 / 3)
        self._exact, self._dtype, self._labeled = estimator.exact, np.dtype(estimator.dtype), estimator.labeled
        self._sizes: list[int] | None = None
        self.structure = (ProjectiveTree if estimator.projective else NonProjectiveTree)(estimator.single_root)
        self.templates: TemplateSet
        self.relations: RelationLabeler | None = None
        self.features: dict[str, list] = {}

    def start(self, data: TreeData) -> ArcExamples:
        """Choose templates and relations; of a stream all templates stay, whatever its first sentences lack."""
        if data.whole:
            self.templates = usable_templates(self._templates, data.treebank)
            self.relations = RelationLabeler.for_treebank(data.treebank) if self._labeled else None
        else:
            self.templates = TemplateSet.resolve(self._templates)
            self.relations = RelationLabeler.for_stream() if self._labeled else None
        self.features = {name: [] for name in self.templates.names}
        return ArcExamples.of(data.treebank, self.templates, data.weights)

    def encode(self, data: TreeData, trainer: OnlineTrainer) -> ArcExamples:
        """Later sentences; nothing grows with them but the relations, when they are learned."""
        return ArcExamples.of(data.treebank, self.templates, data.weights)

    def facts(self, examples: ArcExamples) -> dict[str, Any]:
        """What a checkpoint notes of the data, the plainest first."""
        treebank = examples.treebank
        relations = "\n".join(treebank.strings["deprels"].tolist())
        names = np.frombuffer(relations.encode("utf-8", "surrogatepass"), np.uint8)
        arrays = [treebank.offsets, treebank.heads, treebank.deprels, names, examples.given]
        return {
            "number of sentences": len(treebank),
            "number of words": treebank.n_words,
            "number of templates": len(self.templates),
            "content of the data": fingerprint([examples.tokens.columns, *arrays]),
        }

    @property
    def order(self) -> list[str]:
        """Names of the groups in the order in which the user gave them."""
        return self.templates.names

    def banks(
        self, averaging: bool, training: ArcExamples | None = None, in_shards: bool = False
    ) -> tuple[list[Any], list[Any]]:
        """The untrained bank; templates share memory by the number of their features in ``training``, if given."""
        if training is not None:
            bank = ArcTemplateBank.plan(self.templates, training, self._memory, averaging, self._dtype, self._exact)
        elif self._sizes is not None:
            bank = ArcTemplateBank(self.templates, averaging, self._dtype, self._sizes, exact=self._exact)
        else:
            bank = ArcTemplateBank(self.templates, averaging, self._dtype, memory=self._memory, exact=self._exact)
        self._sizes = bank.sizes.tolist()
        return [bank], []

    def learned(self) -> dict[str, Any]:
        """Learned attributes of the parser, by name."""
        return {"templates_": self.templates}

    def top_features(self, predictor: Predictor, n: int, group: str | None) -> list[dict[str, Any]]:
        """The strongest features; see :meth:`omkl.DependencyParser.top_features`."""
        if group is not None and group not in self.features:
            raise InputError(f"There is no template {group!r}.")
        features = [
            {"feature": feature, "group": name, "weight": weight}
            for name in (self.features if group is None else [group]) for feature, weight in self.features[name]
        ]  # fmt: skip
        return sorted(features, key=lambda feature: -abs(feature["weight"]))[:n]

    def pruned(self, estimator: Any, bank: ArcTemplateBank) -> "TreebankCodec":
        """The codec of an estimator with the templates of this bank, some of these, and the same relations."""
        codec = TreebankCodec(estimator)
        codec.templates, codec.relations, codec._sizes = estimator.templates, self.relations, bank.sizes.tolist()
        codec.features = {name: self.features[name] for name in codec.templates.names}
        return codec

    def pack(self, packer: Packer) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """``(JSON values, arrays)`` for a model file."""
        relations, arrays = (None, {}) if self.relations is None else self.relations.describe()
        values = {
            "templates": str(self.templates).splitlines(),
            "sizes": self._sizes,
            "relations": relations,
            "top_features": self.features,
        }
        return values, {f"relations/{name}": array for name, array in arrays.items()}

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray], unpacker: Unpacker) -> None:
        """The inverse of :meth:`pack`."""
        self.templates, self._sizes = TemplateSet(values["templates"]), values["sizes"]
        self.features = values["top_features"]
        if values["relations"] is not None:
            own = {k.removeprefix("relations/"): a for k, a in arrays.items() if k.startswith("relations/")}
            self.relations = RelationLabeler.restored(values["relations"], own)
