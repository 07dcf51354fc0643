"""Entry point of ``python -m gattn.cli``, which torchrun uses to start the ``gattn`` command."""

from gattn.cli import main

if __name__ == "__main__":
    main()
