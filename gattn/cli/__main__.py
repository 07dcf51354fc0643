"""``python -m gattn.cli``: the command, as torchrun starts it."""

from gattn.cli import main

if __name__ == "__main__":
    main()
