"""Base class of modules whose parameters belong to their children."""

from torch.nn import Module
from torch_geometric.nn.inits import reset


class CompositeModule(Module):
    """Module that has no parameters of its own."""

    def reset_parameters(self) -> None:
        """Reset all learnable parameters, in the order in which the children were assigned."""
        for module in self.children():
            reset(module)
