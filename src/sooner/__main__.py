"""`python -m sooner` is the command line."""

from sooner.cli import main

main()
