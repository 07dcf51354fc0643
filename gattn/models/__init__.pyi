from gattn.models.attentive_fp import AttentiveFP
from gattn.models.gat import GAT
from gattn.models.layerwise import layerwise_inference
from gattn.models.polynormer import Polynormer
from gattn.models.sgformer import SGFormer

__all__ = ["GAT", "AttentiveFP", "Polynormer", "SGFormer", "layerwise_inference"]
