"""``python -m hybridbn``: the command line."""

from hybridbn.commands.cli import main

if __name__ == "__main__":
    main()
