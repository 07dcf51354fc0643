"""Applications on the library: molecules, nodes, links, their service and commands."""
