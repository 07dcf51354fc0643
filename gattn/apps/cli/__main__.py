"""Entry point of ``python -m gattn.apps.cli``, the ``gattn`` command."""

from gattn.apps.cli import main

if __name__ == "__main__":
    main()
