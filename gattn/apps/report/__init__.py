"""Report pages and figures of training runs."""
