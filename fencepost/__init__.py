"""Fencepost: webhooks that are never lost, and a timeline for each of them."""

__version__ = "0.1.0.dev0"
