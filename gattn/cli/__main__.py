"""Entry point of ``python -m gattn.cli``, the form of the command that torchrun starts."""

from gattn.cli import main

if __name__ == "__main__":
    main()
