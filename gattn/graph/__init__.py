"""The class Graph, and conversions of edges in other formats to a Graph."""

from gattn.graph.cache import outside_transforms as outside_transforms
from gattn.graph.graph import Graph as Graph
from gattn.graph.graph import as_graph as as_graph
from gattn.graph.graph import check_graph as check_graph
