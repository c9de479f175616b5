"""One module for each rule about memory; each takes columns and yields diagnostics."""
