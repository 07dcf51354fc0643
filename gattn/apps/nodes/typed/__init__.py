"""Networks whose nodes have types with columns of their own, connected by several relations."""
