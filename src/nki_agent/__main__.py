"""`python -m nki_agent` is `nki-agent`."""

from nki_agent.cli.main import main

main()
