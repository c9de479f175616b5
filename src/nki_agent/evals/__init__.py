"""An agent over a benchmark: episodes to attempts, resumable."""
