"""Groups: storage of the parameters. A bank is several groups in one representation."""

from omkl.groups.base import Bank, check_ability, initial_potentials
from omkl.groups.expansions.budget import BudgetedExpansion
from omkl.groups.expansions.cached import CachedKernelBank
from omkl.groups.expansions.kernel import KernelBank, KernelExpansion
from omkl.groups.feature_maps import FeatureMapBank
from omkl.groups.group_state import GroupState
from omkl.groups.tables import ExplicitBank, InterceptBank, TransitionBank, TrigramBank
from omkl.groups.templates.bank import ArcTemplateBank
from omkl.groups.templates.language import Template, TemplateSet, distance_name
from omkl.groups.templates.layout import ArcFeatureHasher, ArcTokens
from omkl.groups.tokens import Features, Span, Tokens

__all__ = [
    "ArcFeatureHasher",
    "ArcTemplateBank",
    "ArcTokens",
    "Bank",
    "BudgetedExpansion",
    "CachedKernelBank",
    "ExplicitBank",
    "FeatureMapBank",
    "Features",
    "GroupState",
    "InterceptBank",
    "KernelBank",
    "KernelExpansion",
    "Span",
    "Template",
    "TemplateSet",
    "Tokens",
    "TransitionBank",
    "TrigramBank",
    "check_ability",
    "distance_name",
    "initial_potentials",
]
