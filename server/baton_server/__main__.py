"""`python -m baton_server`: the same as `baton`."""

from baton_server.cli import main

main()
