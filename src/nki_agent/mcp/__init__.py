"""Serves the agent's tools to other agents over the Model Context Protocol."""
