"""The commands of ``gattn molecules``, one module each; this module imports none of them."""
