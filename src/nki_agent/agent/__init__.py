"""Episodes: one model works on one task through tools, within limits, and all of it is kept."""
