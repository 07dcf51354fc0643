"""Local web page and HTTP API for trained models: the command ``gattn serve``.

The package needs the extra ``serve``. Its modules are imported when the command runs, so that the
other commands start without it.
"""
