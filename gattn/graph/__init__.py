"""Graphs as layers take them, and the edges that a caller passes."""

from gattn.graph.cache import outside_transforms as outside_transforms
from gattn.graph.graph import Graph as Graph
from gattn.graph.graph import as_graph as as_graph
from gattn.graph.graph import check_graph as check_graph
