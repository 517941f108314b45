"""``explain`` of the parser: why a sentence gets its tree."""

from typing import Any

import numpy as np

from omkl.data import Treebank
from omkl.estimators.explaining import listed, strongest_of
from omkl.estimators.explanations import Explanation
from omkl.estimators.fitted import check_is_fitted
from omkl.estimators.tree_prediction import from_potentials
from omkl.estimators.treebanks import feature_namer, treebanks_of
from omkl.exceptions import InputError
from omkl.online import Piece, contributions
from omkl.structures.trees import as_heads


class ExplainsTrees:
    """What a parser says of why a sentence gets its tree; see :class:`~omkl.DependencyParser`."""

    model_: Any
    predictor_: Any
    _blocks: Any
    _decoder: Any

    def explain(
        self, x: Any, *, heads: Any = None, against: Any = None, word: int | None = None, n: int = 20
    ) -> Explanation:
        """Why a sentence gets its tree, and not the next best.

        The score of a tree is a sum over its arcs, and over the templates; so is the difference of two scores, the
        margin, which the templates add up to. Relations play no part.

        Parameters
        ----------
        x : sentence
            A list of words, a :class:`~omkl.data.Sentence`, or what else :meth:`parse` takes, with one sentence.
        heads : int array of shape (n_words,), optional
            The tree to explain; the predicted one by default.
        against : int array of shape (n_words,), optional
            What to compare it with; by default the best of all other trees.
        word : int, optional
            Compare with the best tree in which this word, counted from 1, has another head.
        n : int > 0
            How many of the strongest features to tell.

        Returns
        -------
        omkl.estimators.Explanation

        Raises
        ------
        omkl.exceptions.InputError
            If heads do not fit the sentence, or there is no other tree.
        """
        [(block, constraints)] = self._blocks(x if isinstance(x, Treebank) else [x], None, None)
        if len(block) != 1:
            raise InputError(
                f"explain takes one sentence, but there are {len(block)}: call it for one after the other."
            )
        codec, predictor, n_words = self.model_.codec, self.predictor_, block.n_words
        sentence = codec.tokens(block, all_arcs=True).sentence(0)
        structure, potentials = predictor.structure, predictor.potentials(sentence)
        if heads is None:
            [chosen] = from_potentials(self, block, self._decoder(constraints))
        else:
            chosen = as_heads(heads, n_words)
        if word is not None and not (isinstance(word, (int, np.integer)) and 1 <= word <= n_words):
            raise InputError(f"word={word!r} is none of the {n_words} words of the sentence, counted from 1.")
        other = _other_tree(structure, potentials, chosen, word) if against is None else as_heads(against, n_words)
        margin, direction = structure.difference(potentials, chosen, other)
        guide = None if codec.first is None else codec.guide(block, all_arcs=True)
        name = feature_namer(codec.templates, block, None if guide is None else guide.trees)
        templates = {template.name: template for template in codec.templates}

        def named(pieces: list[Piece]) -> list[str]:
            return [name(templates[piece.group], 0, *piece.key) for piece in pieces]

        found = contributions(predictor, sentence, direction)
        forms = ["ROOT", *(form or "_" for form in block[0].forms)]
        told = [
            f"{forms[i + 1]} ({i + 1}) from {forms[chosen[i]]} ({chosen[i]}) rather than {forms[other[i]]} ({other[i]})"
            for i in np.flatnonzero(chosen != other).tolist()
        ]
        strongest = strongest_of(found, n, named)
        return Explanation(chosen, other, listed(told), float(margin), found.groups, strongest)


def _other_tree(structure: Any, potentials: np.ndarray, chosen: np.ndarray, word: int | None) -> np.ndarray:
    """The best tree but one; with a word, of those in which it has another head."""
    if word is None:
        found = [own for own in structure.decode_best(potentials, 2)[0] if not np.array_equal(own, chosen)]
    else:
        own = potentials.copy()
        own[chosen[word - 1], word] = -np.inf
        found = [structure.decode(own)] if structure.is_possible(own) else []
    if not found:
        raise InputError("There is no other tree, which this one could be compared with.")
    return found[0]


class ExplainsParts:
    """What an annotator says of why a sentence gets its tags or its tree."""

    tagger_: Any
    parser_: Any

    def explain(self, x: Any, part: str | None = None, **options: Any) -> Explanation:
        """Why a sentence gets its tree, or its tags, and not the next best.

        Parameters
        ----------
        x : list of str or Sentence
        part : str, optional
            ``"trees"``, the default of an annotator that writes them, or the column of the chain of tags, ``"upos"`` or
            ``"xpos"``. What is told of single words, as lemmas are, :meth:`models` explain from features of theirs.
        **options
            As for :meth:`omkl.DependencyParser.explain` or :meth:`omkl.SequenceLabeler.explain`.

        Returns
        -------
        omkl.estimators.Explanation
            That of a tree is given the tags that the annotator writes.

        Raises
        ------
        omkl.exceptions.InputError
            If the annotator has no such part, or as for these methods.
        """
        check_is_fitted(self)
        chains = [] if self.tagger_ is None else self.tagger_.chains
        known = ["trees"] * (self.parser_ is not None) + [str(self.tagger_.tag) for _ in chains]
        part = known[0] if part is None and known else part
        if part not in known:
            there = " and ".join(known) or "none of its parts"
            raise InputError(f"The annotator explains {there}, not {part!r}: models() has the labelers of all others.")
        [sentence] = treebanks_of(x if isinstance(x, Treebank) else [x], trees=False)
        if part != "trees":
            return chains[0].explain([form or "" for form in sentence[0].forms], **options)
        return self.parser_.explain(sentence if self.tagger_ is None else self.tagger_.annotate(sentence), **options)
