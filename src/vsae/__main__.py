"""`python -m vsae` is `vsae`."""

from vsae.cli.app import main

if __name__ == "__main__":
    main()
