"""`python -m vsae` is `vsae`."""

from vsae.cli import main

if __name__ == "__main__":
    main()
