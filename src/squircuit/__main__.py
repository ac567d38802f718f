"""`python -m squircuit` is the command `squircuit`."""

from squircuit.cli import main

if __name__ == "__main__":
    main()
