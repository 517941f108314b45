from .base import Bank, check_ability, initial_potentials
from .expansions.budget import BudgetedExpansion
from .expansions.cached import CachedKernelBank
from .expansions.kernel import KernelBank, KernelExpansion
from .feature_maps import FeatureMapBank
from .group_state import GroupState
from .tables import ExplicitBank, InterceptBank, TransitionBank, TrigramBank
from .templates.bank import ArcTemplateBank
from .templates.language import Template, TemplateSet, distance_name
from .templates.layout import ArcFeatureHasher, ArcTokens
from .tokens import Features, Span, Tokens

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
