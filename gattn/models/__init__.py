"""Models built from gattn's layers."""

from gattn.models.attentive_fp import AttentiveFP
from gattn.models.gat import GAT
from gattn.models.layerwise import layerwise_inference
from gattn.models.polynormer import Polynormer
from gattn.models.sgformer import SGFormer
from gattn.nn.common.checks import refuse_scripts

__all__ = ["GAT", "AttentiveFP", "Polynormer", "SGFormer", "layerwise_inference"]

refuse_scripts(GAT, AttentiveFP, Polynormer, SGFormer)
