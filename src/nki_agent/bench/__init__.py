"""The 250 tasks, their splits, and the scores."""
