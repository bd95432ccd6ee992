"""`python -m specbench` is the command line."""

from specbench.cli.main import main

main()
