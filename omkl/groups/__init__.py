"""Groups: where parameters live. A bank is several groups in one representation."""

from omkl.groups.arc_layout import ArcFeatureHasher, ArcTokens
from omkl.groups.base import (
    Bank,
    Condensable,
    GroupBank,
    Growable,
    HasCoordinates,
    Mixable,
    Testable,
    check_ability,
    initial_potentials,
)
from omkl.groups.budget import RemovalExpansion
from omkl.groups.cached import CachedKernelBank, SparseCachedBank
from omkl.groups.feature_maps import FeatureMapBank
from omkl.groups.group_state import GroupState
from omkl.groups.kernel import KernelBank, KernelExpansion
from omkl.groups.projection import ProjectionExpansion
from omkl.groups.tables import ExplicitBank, InterceptBank, TransitionBank, TrigramBank
from omkl.groups.template_bank import ArcTemplateBank
from omkl.groups.templates import Template, TemplateSet, distance_name
from omkl.groups.tokens import Features, Span, Tokens

__all__ = [
    "ArcFeatureHasher",
    "ArcTemplateBank",
    "ArcTokens",
    "Bank",
    "CachedKernelBank",
    "Condensable",
    "ExplicitBank",
    "FeatureMapBank",
    "Features",
    "GroupBank",
    "GroupState",
    "Growable",
    "HasCoordinates",
    "InterceptBank",
    "KernelBank",
    "KernelExpansion",
    "Mixable",
    "ProjectionExpansion",
    "RemovalExpansion",
    "Span",
    "SparseCachedBank",
    "Template",
    "TemplateSet",
    "Testable",
    "Tokens",
    "TransitionBank",
    "TrigramBank",
    "check_ability",
    "distance_name",
    "initial_potentials",
]
