"""One module for each rule about source; each takes a `Project` and yields diagnostics."""
