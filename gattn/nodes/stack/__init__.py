"""Components of a stacked model of nodes, and the weights that combine them."""
