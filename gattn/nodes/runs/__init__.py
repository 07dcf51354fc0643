"""The commands of ``gattn nodes``, one module each; this module imports none of them."""
