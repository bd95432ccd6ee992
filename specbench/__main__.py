"""`python -m specbench` is the command line."""

from specbench.cli.entry import main

main()
